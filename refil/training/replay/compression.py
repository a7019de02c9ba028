"""Replay on disk: of each episode its beginning, its key, what was done in it and what that gained; the rest is played again.

That is a fortieth of what the states of a long one take. Whether an episode played again is the same to the last bit depends
on how its programs were compiled, so that is tried out, by the very program that would restore it, and those that are not
are kept whole. First states and rewards are kept because a GPU's compiler rounds such sums now this way, now that.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from refil import rollout
from refil.types import Env, Trajectory


class Condensed(eqx.Module):
    """All episodes of a replay, in little space."""

    task: Int[Array, "seeds episodes"]
    key: UInt32[Array, "seeds episodes words"]
    first: PyTree
    actions: Int[Array, "seeds episodes time agents"]
    rewards: Float[Array, "seeds episodes time"]


class Uncondensed(eqx.Module):
    """Episodes that do not come back to the last bit; `places` counts the slots of all seeds in a row."""

    places: Int[Array, " episodes"]
    trajectories: Trajectory


def condense(env: Env, trajectories: Trajectory) -> Condensed:
    """What cannot be worked out again."""
    small = jnp.int8 if env.spec.actions <= 127 else jnp.int16
    first = jax.tree.map(lambda leaf: leaf[:, :, 0], trajectories.states)
    return Condensed(trajectories.task, trajectories.key, first, trajectories.actions.astype(small), trajectories.rewards)


def play_again(env: Env, condensed: Condensed, inserted: Int[Array, " seeds"]) -> Trajectory:
    """Everything else, worked out again; slots that nothing was inserted into are empty."""
    played = rollout.again(env, condensed.first, condensed.task, condensed.key, condensed.actions)
    played = replace(played, rewards=condensed.rewards)
    held = jnp.arange(condensed.task.shape[1]) < inserted[:, None]
    return jax.tree.map(lambda leaf: rollout.keep(held, leaf, jnp.zeros_like(leaf)), played)


def differing(one: Trajectory, other: Trajectory) -> Bool[Array, "seeds episodes"]:
    """Which episodes are not equal to the last bit."""

    def differs(one: Array, other: Array) -> Array:
        return (bits(one) != bits(other)).any(axis=tuple(range(2, one.ndim)))

    return jnp.stack(jax.tree.leaves(jax.tree.map(differs, one, other))).any(axis=0)


def leave(trajectories: Trajectory, places: Int[Array, " episodes"]) -> Uncondensed:
    """The episodes in these places, as they are."""
    return Uncondensed(places, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[places], trajectories))


def put_back(trajectories: Trajectory, left: Uncondensed) -> Trajectory:
    """The same with these episodes in their places."""

    def replaced(all_: Array, some: Array) -> Array:
        return all_.reshape(-1, *all_.shape[2:]).at[left.places].set(some).reshape(all_.shape)

    return jax.tree.map(replaced, trajectories, left.trajectories)


def bits(values: PyTree) -> Array:
    """Numbers as the bits they are made of: 0 is not -0 here, and a number that is none is itself."""
    return jax.lax.bitcast_convert_type(values, jnp.uint32) if values.dtype == jnp.float32 else values
