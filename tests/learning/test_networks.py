"""Networks that methods share: their sizes, and the options that do not fit together."""

import jax
import pytest

from refil.errors import RefilError
from refil.learning import networks
from refil.nn.mixers import LinearQmix, Qmix, Vdn
from refil.nn.targeted import TargetedUtility
from refil.nn.utilities import FeedForwardUtility, GruUtility
from refil.types import Spec

SPEC = Spec(agents=3, entities=5, features=6, actions=4, horizon=7)
AIMED = Spec(agents=3, entities=5, features=6, actions=4, horizon=7, target_actions=2)
KEY = jax.random.key(0)


def small(options, **changes):
    sizes = {"size": 8, "heads": 2, "memory": 8}
    return options(**({name: value for name, value in sizes.items() if hasattr(options, name)} | changes))


def test_inputs_have_the_last_action_if_it_is_asked_for():
    assert networks.input_size(SPEC, last_action=False) == 6
    assert networks.input_size(SPEC, last_action=True) == 10


def test_attention_needs_a_size_that_its_heads_divide():
    with pytest.raises(RefilError, match=r"method.size 10 must be a multiple of method.heads 4"):
        networks.attention_factory(10, 4)


@pytest.mark.parametrize(("recurrent", "kind"), [(True, GruUtility), (False, FeedForwardUtility)])
def test_utilities_have_a_memory_if_they_are_recurrent(recurrent, kind):
    model = networks.attention_vdn(small(networks.UtilityOptions, recurrent=recurrent), SPEC, KEY)
    assert isinstance(model.utility, kind)
    assert isinstance(model.mixer, Vdn)
    assert model.utility.head.weight.shape == (8, 4)


@pytest.mark.parametrize(("mixer", "kind"), [("attention", Qmix), ("linear", LinearQmix)])
def test_the_mixing_network_is_the_one_of_the_option(mixer, kind):
    model = networks.attention_qmix(small(networks.MixerOptions, mixer=mixer, mixing=4), SPEC, KEY)
    assert isinstance(model.mixer, kind)


def test_networks_of_the_same_key_are_the_same_and_of_another_differ():
    options = small(networks.MixerOptions)
    first, same, other = (jax.tree.leaves(networks.attention_qmix(options, SPEC, jax.random.key(seed))) for seed in (0, 0, 1))
    assert all((a == b).all() for a, b in zip(first, same, strict=True))
    assert not any((a == b).all() for a, b in zip(first, other, strict=True) if a.size > 1)


@pytest.mark.parametrize(
    ("build", "options"),
    [
        (networks.attention_qmix, networks.MixerOptions),
        (networks.attention_vdn, networks.UtilityOptions),
        (lambda options, *rest: networks.pooling_qmix(options, "mean", *rest), networks.PoolingOptions),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_shared_targets_need_actions_aimed_at_entities_and_a_memory(build, options):
    assert isinstance(build(small(options, shared_targets=True), AIMED, KEY).utility, TargetedUtility)
    with pytest.raises(RefilError, match="this environment has none"):
        build(small(options, shared_targets=True), SPEC, KEY)
    with pytest.raises(RefilError, match=r"method.shared_targets needs method.recurrent"):
        build(small(options, shared_targets=True, recurrent=False), AIMED, KEY)
