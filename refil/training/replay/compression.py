"""Compact checkpoints: store what is needed to simulate each episode again (40 times smaller for battles).

Whether an episode comes back bit-identically depends on how its programs were compiled. So compression tries it, with the
program that would restore it, and stores the other episodes in full. First states and rewards are stored because a GPU's
compiler may round such sums differently from program to program.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from refil.rollout import run_episodes, select
from refil.training import devices
from refil.types import Env, Observation, Trajectory

SLOT_MULTIPLE = 16  # the number of uncompressed episodes is rounded up, so that few sizes are compiled


class Compressed(eqx.Module):
    """All episodes of a replay buffer, without what can be simulated again."""

    task: Int[Array, "seeds episodes"]
    key: UInt32[Array, "seeds episodes words"]
    first_state: PyTree
    actions: Int[Array, "seeds episodes time agents"]
    rewards: Float[Array, "seeds episodes time"]


class Uncompressed(eqx.Module):
    """Episodes that do not come back bit-identically; `slots` count through the buffers of all seeds."""

    slots: Int[Array, " episodes"]
    trajectories: Trajectory


class ReplayCompressor:
    """Compresses the replay buffer of a training state, and restores it."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self._decompress = devices.jit(partial(decompress, env))
        self._mismatched, self._take, self._set = map(jax.jit, (mismatched, take_slots, set_slots))

    def compress(self, state: Any) -> tuple[Any, int]:
        """Return the state with a compressed buffer, and how many episodes are stored uncompressed."""
        trajectories = state.replay.trajectories
        compressed = compress(self.env, trajectories)
        restored = self._decompress(compressed, state.replay.num_inserted)
        slots = np.flatnonzero(self._mismatched(restored, trajectories))
        slots = np.resize(slots, -(-len(slots) // SLOT_MULTIPLE) * SLOT_MULTIPLE)  # some are then stored twice
        return _with_episodes(state, (compressed, self._take(trajectories, slots))), len(slots)

    def shapes(self, state: Any, num_uncompressed: int) -> Any:
        """Return the shapes of a compressed state, given those of the state."""
        trajectories, slots = state.replay.trajectories, jax.ShapeDtypeStruct((num_uncompressed,), jnp.int32)
        compressed = jax.eval_shape(partial(compress, self.env), trajectories)
        return _with_episodes(state, (compressed, jax.eval_shape(take_slots, trajectories, slots)))

    def decompress(self, state: Any) -> Any:
        """Invert `compress`."""
        compressed, uncompressed = state.replay.trajectories
        return _with_episodes(state, self._set(self._decompress(compressed, state.replay.num_inserted), uncompressed))


def _with_episodes(state: Any, episodes: PyTree) -> Any:
    return eqx.tree_at(lambda each: each.replay.trajectories, state, episodes)


def compress(env: Env, trajectories: Trajectory) -> Compressed:
    """Keep what cannot be simulated again."""
    dtype = jnp.int8 if env.spec.actions <= 127 else jnp.int16
    first_state = jax.tree.map(lambda leaf: leaf[:, :, 0], trajectories.states)
    actions = trajectories.actions.astype(dtype)
    return Compressed(trajectories.task, trajectories.key, first_state, actions, trajectories.rewards)


def decompress(env: Env, compressed: Compressed, num_inserted: Int[Array, " seeds"]) -> Trajectory:
    """Simulate all episodes again; slots that were never filled are zero."""
    played = replay_actions(env, compressed)
    filled = jnp.arange(compressed.task.shape[1]) < num_inserted[:, None]
    played = replace(played, rewards=compressed.rewards)
    return jax.tree.map(lambda leaf: select(filled, leaf, jnp.zeros_like(leaf)), played)


def replay_actions(env: Env, compressed: Compressed) -> Trajectory:
    """Play the recorded actions from the recorded first states with the recorded keys."""

    def policy(time: Array, obs: Observation, keys: Array) -> tuple[Array, Array]:
        return time + 1, compressed.actions[:, :, time].astype(jnp.int32)

    keys = jax.random.wrap_key_data(compressed.key)
    start = jnp.zeros((), jnp.int32)
    return replace(run_episodes(env, policy, start, compressed.first_state, compressed.task, keys), metrics={})


def mismatched(one: Trajectory, other: Trajectory) -> Bool[Array, "seeds episodes"]:
    """Return which episodes differ in any bit."""

    def differs(one: Array, other: Array) -> Array:
        return (_bits(one) != _bits(other)).any(axis=tuple(range(2, one.ndim)))

    return jnp.stack(jax.tree.leaves(jax.tree.map(differs, one, other))).any(axis=0)


def take_slots(trajectories: Trajectory, slots: Int[Array, " episodes"]) -> Uncompressed:
    """Return the episodes in these slots."""
    return Uncompressed(slots, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[slots], trajectories))


def set_slots(trajectories: Trajectory, uncompressed: Uncompressed) -> Trajectory:
    """Write episodes into their slots."""

    def write(leaf: Array, new: Array) -> Array:
        return leaf.reshape(-1, *leaf.shape[2:]).at[uncompressed.slots].set(new).reshape(leaf.shape)

    return jax.tree.map(write, trajectories, uncompressed.trajectories)


def _bits(values: Array) -> Array:
    """Return float32 as integers: 0 then differs from -0, and NaN equals itself."""
    return jax.lax.bitcast_convert_type(values, jnp.uint32) if values.dtype == jnp.float32 else values
