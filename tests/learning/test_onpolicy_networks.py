"""Networks of on-policy methods."""

import jax
import jax.numpy as jnp
import pytest

from refil.errors import RefilError
from refil.learning.onpolicy_networks import OnPolicyNetOptions, on_policy_model
from refil.nn.mixers import Vdn
from refil.nn.normalized import NormalizedQmix
from refil.nn.targeted import TargetedUtility
from refil.types import Spec

SPEC = Spec(agents=3, entities=5, features=6, actions=4, horizon=7, target_actions=2)
KEY = jax.random.key(0)


def built(**changes):
    return on_policy_model(OnPolicyNetOptions(size=8, heads=2, memory=8, **changes), SPEC, KEY)


@pytest.mark.parametrize(("mixer", "kind"), [("qmix", NormalizedQmix), ("vdn", Vdn)])
def test_utilities_are_combined_as_the_option_says(mixer, kind):
    assert isinstance(built(mixer=mixer).mixer, kind)


def test_heads_start_scaled():
    options = {"layer_norm": False, "recurrent": False}
    plain, scaled = (built(head_scale=scale, **options).utility for scale in (1.0, 0.5))
    assert jnp.allclose(scaled.head.weight, 0.5 * plain.head.weight)
    assert (scaled.encoder.embed.weight == plain.encoder.embed.weight).all()


@pytest.mark.parametrize("changes", [{"layer_norm": False}, {"utility": "updet"}], ids=str)
def test_an_own_embedding_needs_an_encoder_to_add_it_to(changes):
    with pytest.raises(RefilError, match=r"method.own_embedding needs method.layer_norm, and a method.utility other than"):
        built(own_embedding=True, **changes)


@pytest.mark.parametrize("layer_norm", [True, False])
def test_targets_are_shared_with_normalization_or_without(layer_norm):
    assert isinstance(built(shared_targets=True, layer_norm=layer_norm).utility, TargetedUtility)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"utility": "updet"}, r"method.shared_targets needs a method.utility other than updet"),
        ({"recurrent": False}, r"method.shared_targets needs method.recurrent"),
    ],
)
def test_networks_that_cannot_share_targets_are_refused(changes, error):
    with pytest.raises(RefilError, match=error):
        built(shared_targets=True, **changes)
