"""Memory: how many bytes episodes need, computed from shapes before anything is allocated."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from refil.errors import RefilError, describe
from refil.training import devices
from refil.types import Env


class EpisodeBytes(NamedTuple):
    """The bytes of one state, of one observation, and of a recorded episode without observations."""

    state: int
    observation: int
    trajectory: int


def num_bytes(tree: Any) -> int:
    """Return the size of all arrays of a pytree, or of their shapes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def episode_bytes(env: Env) -> EpisodeBytes:
    """Return what an episode needs at least; nothing is computed."""
    task = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf)[1:], jnp.result_type(leaf)), env.tasks)
    first = jax.eval_shape(env.reset, task, jax.eval_shape(lambda: jax.random.key(0)))
    state, observation = num_bytes(first), num_bytes(jax.eval_shape(env.observe, first))
    steps = env.spec.horizon * 4 * (env.spec.agents + 1)  # actions and rewards
    return EpisodeBytes(state, observation, (env.spec.horizon + 1) * state + steps)


def check_count(count: Any, option: str) -> None:
    """Raise if a number of episodes is no positive integer."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise RefilError(f"{option} must be an int, not {describe(count)}")
    if count < 1:
        raise RefilError(f"{option} must be 1 or more, not {count}")


def check_episodes(env: Env, count: int, option: str, recorded: bool = False) -> None:
    """Raise if this many episodes, played at once, do not fit into memory; `recorded` means that all timesteps are kept."""
    sizes, available = episode_bytes(env), devices.memory_bytes()
    needed = count * (sizes.state + sizes.observation + (sizes.trajectory if recorded else 0))
    if needed > available:
        size = f"{needed / 1e9:,.1f} GB of memory where {available / 1e9:,.1f} GB are available"
        raise RefilError(f"{count:,} episodes at once need {size}; reduce {option}")
