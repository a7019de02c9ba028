"""Methods with small networks, and random batches to try them with."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins
from refil.nn.utilities import unroll
from refil.types import EpisodeBatch, Method, Observation, Spec

METHODS = plugins.names("refil.methods")
EPISODES, TIME = 3, 4
SPECS = [Spec(2, 2, 3, 2, TIME), Spec(3, 5, 4, 5, TIME, target_actions=3)]
FEED_FORWARD, RECURRENT = KINDS = ["feed-forward, linear", "recurrent, attention"]

# Both kinds where the paper uses both: StarCraft's baselines are recurrent with attention in the mixing network.
BOTH = ["refil", "qmix_attention", "refil_vdn", "vdn_attention", "refil_fixed_oracle", "refil_randomized_oracle"]
CASES = [(name, kind) for name in METHODS for kind in KINDS if name in BOTH or kind == RECURRENT]
FAST = ("refil", "qtran", "roma", "qmix_updet")  # one method for each kind of loss and network


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
    options |= {"mixer": "attention" if recurrent else "linear", "mixing": 4}
    options |= {"token": 8, "token_heads": 2, "joint": 8, "mixing_heads": 2, "role_layer": 4, "sample_roles": False}
    options = {option: value for option, value in options.items() if hasattr(config, option)}
    return plugins.load("refil.methods", name).build(replace(config, **(options | changes)), spec)


def two_models(method: Method, seed: int) -> tuple:
    """Return two of a few new models: what they see varies more than they do, which is what matters."""
    return _few_models(method, seed % 3)


@cache
def _few_models(method: Method, seed: int) -> tuple:
    return tuple(jax.jit(method.init)(key) for key in jax.random.split(jax.random.key(seed)))


@cache
def jitted_loss(method: Method):
    """Return the loss and its gradient."""
    return jax.jit(jax.value_and_grad(lambda model, *rest: method.loss(model, *rest)[0]))


@jax.jit
def q_values(model, batch: EpisodeBatch):
    """Return the Q-values of all timesteps; methods whose utilities are alike share the program."""
    return unroll(model.utility, batch, key=jax.random.key(0))


def random_batch(spec: Spec, seed: int) -> EpisodeBatch:
    """Return episodes of random length, presence, visibility, actions and rewards."""
    draw = np.random.default_rng(seed)
    agents, timesteps = spec.agents, TIME + 1
    present = np.repeat(draw.random((EPISODES, 1, spec.entities)) < 0.8, timesteps, axis=1)
    present[:, :, 0] = True
    visible = (draw.random((EPISODES, timesteps, agents, spec.entities)) < 0.7) | np.eye(agents, spec.entities, dtype=bool)
    visible &= present[:, :, :agents, None] & present[:, :, None, :]
    available = draw.random((EPISODES, timesteps, agents, spec.actions)) < 0.7
    available[..., 0] |= ~available.any(axis=-1)
    actions = draw.integers(0, spec.actions, (EPISODES, TIME, agents))
    length = draw.integers(1, TIME + 1, EPISODES)
    time = np.arange(TIME)
    observations = Observation(
        entities=as_floats(draw.normal(size=(EPISODES, timesteps, spec.entities, spec.features)) * present[..., None]),
        present=jnp.asarray(present),
        alive=jnp.asarray(present),
        visible=jnp.asarray(visible),
        available=jnp.asarray(available),
        group=jnp.asarray(np.repeat(draw.integers(0, 2, (EPISODES, 1, spec.entities)), timesteps, axis=1)),
        targeting_action=_targeting_actions(spec, present, draw),
        last_action=jnp.asarray(np.concatenate([np.full_like(actions[:, :1], -1), actions], axis=1)),
        is_first=jnp.broadcast_to(jnp.arange(timesteps) == 0, (EPISODES, timesteps)),
    )
    return EpisodeBatch(
        observations=observations,
        episode_id=jnp.repeat(jnp.arange(EPISODES)[:, None], timesteps, axis=1),
        actions=jnp.asarray(actions),
        rewards=as_floats(draw.normal(size=(EPISODES, TIME))),
        terminated=jnp.asarray((time == length[:, None] - 1) & (draw.random((EPISODES, 1)) < 0.7)),
        valid=jnp.asarray(time < length[:, None]),
        num_episodes=EPISODES,
    )


def _targeting_actions(spec: Spec, present: np.ndarray, draw: np.random.Generator) -> jax.Array:
    """Return the action aimed at each entity: each of them at one entity, and none at the others."""
    choices = [*range(spec.actions - spec.target_actions, spec.actions), *[-1] * (spec.entities - spec.target_actions)]
    rows = np.stack([draw.permutation(choices)[: spec.entities] for _ in range(EPISODES)])[:, None]
    return jnp.asarray(np.where(present, np.broadcast_to(rows, present.shape), -1))


def as_floats(values: np.ndarray) -> jax.Array:
    """Return a float32 array."""
    return jnp.asarray(values, jnp.float32)


def assert_trees_close(ours, theirs, tolerance=2e-5):
    """Compare two pytrees."""
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=tolerance, rtol=1e-4), ours, theirs)
