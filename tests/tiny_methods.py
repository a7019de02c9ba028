"""Methods with small networks, and random batches to try them with."""

from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest

from refil import plugins
from refil.checks.batches import EPISODES, TIME, as_floats, random_batch
from refil.checks.methods import Subject, as_replay_method
from refil.nn.utilities import unroll
from refil.types import EpisodeBatch, Method, Spec

__all__ = ["EPISODES", "TIME", "as_floats", "random_batch"]  # for tests of methods
METHODS = plugins.names("refil.methods")
SPECS = [Spec(2, 2, 3, 2, TIME), Spec(3, 5, 4, 5, TIME, target_actions=3)]
SUBJECTS: dict[Method, Subject] = {}  # methods share what is compiled
FEED_FORWARD, RECURRENT = KINDS = ["feed-forward, linear", "recurrent, attention"]

# Both kinds where the paper uses both: StarCraft's baselines are recurrent with attention in the mixing network.
BOTH = ["refil", "qmix_attention", "refil_vdn", "vdn_attention", "refil_fixed_oracle", "refil_randomized_oracle"]
CASES = [(name, kind) for name in METHODS for kind in KINDS if name in BOTH or kind == RECURRENT]
FAST = ("refil", "qtran", "roma", "qmix_updet", "refil_pqn")  # one method for each kind of loss and network


def marked_slow(cases, fast: tuple[str, ...] = FAST) -> list:
    """Mark all cases but those of a few methods as slow; a case is a tuple that starts with the name of a method."""
    return [pytest.param(*case, marks=() if case[0] in fast else pytest.mark.slow) for case in cases]


every_method = pytest.mark.parametrize("name", marked_slow([(name,) for name in METHODS]))
every_case = pytest.mark.parametrize(("name", "kind"), marked_slow(CASES))


@cache
def built(name: str, kind: str, entities: int = 5, **changes) -> tuple[Method, Spec]:
    """Return a small method and the sizes of its environment."""
    spec = next(spec for spec in SPECS if spec.entities == entities)
    return small(name, kind, spec, **changes), spec


@cache
def small(name: str, kind: str, spec: Spec, **changes) -> Method:
    """Return a method with few parameters, for an environment of any size."""
    config = plugins.load("refil.methods", name).Config()
    recurrent = kind == RECURRENT
    options = {"size": 8, "memory": 4, "heads": 2, "recurrent": recurrent, "last_action": recurrent}
    if getattr(config, "mixer", "") in ("attention", "linear"):
        options["mixer"] = "attention" if recurrent else "linear"
    options |= {
        "mixing": 4,
        "token": 8,
        "token_heads": 2,
        "joint": 8,
        "mixing_heads": 2,
        "role_layer": 4,
        "sample_roles": False,
    }
    options = {option: value for option, value in options.items() if hasattr(config, option)}
    return as_replay_method(plugins.load("refil.methods", name).build(replace(config, **(options | changes)), spec))


@cache
def subject(name: str, kind: str, entities: int = 5, **changes) -> Subject:
    """Return a small method to check."""
    communicates = getattr(plugins.load("refil.methods", name), "COMMUNICATES", False)
    method, spec = built(name, kind, entities, **changes)
    return subject_of(method, spec, communicates)


def subject_of(method: Method, spec: Spec = SPECS[1], communicates: bool = False) -> Subject:
    return SUBJECTS.setdefault(method, Subject(method, spec, communicates))


def two_models(method: Method, seed: int) -> tuple:
    """Return two of a few new models: what they see varies more than they do, which is what matters."""
    return _few_models(method, seed % 3)


@cache
def _few_models(method: Method, seed: int) -> tuple:
    return subject_of(method).models(seed)


def jitted_loss(method: Method):
    """Return the loss and its gradient."""
    return subject_of(method).loss


@jax.jit
def q_values(model, batch: EpisodeBatch):
    """Return the Q-values of all timesteps; methods whose utilities are alike share the program."""
    return unroll(model.utility, batch, key=jax.random.key(0))


def assert_trees_close(ours, theirs, tolerance=2e-5):
    """Compare two pytrees."""
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=tolerance, rtol=1e-4), ours, theirs)
