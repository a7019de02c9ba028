"""Replay on disk: of each episode its beginning, its key, what was done in it and what that gained; the rest is played again.

That is a fortieth of what the states of a long one take. Whether an episode played again is the same to the last bit depends
on how its programs were compiled, so that is tried out, by the very program that would restore it, before anything is left
away. First states and rewards are kept because a GPU's compiler rounds such sums now this way, now that.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from refil import collect
from refil.types import Env, Recording


class Condensed(eqx.Module):
    """All episodes of a replay."""

    task: Int[Array, "seeds episodes"]
    key: UInt32[Array, "seeds episodes words"]
    first: PyTree
    actions: Int[Array, "seeds episodes time agents"]
    rewards: Float[Array, "seeds episodes time"]


def condense(env: Env, recordings: Recording) -> Condensed:
    """What cannot be worked out again."""
    small = jnp.int8 if env.spec.actions <= 127 else jnp.int16
    first = jax.tree.map(lambda leaf: leaf[:, :, 0], recordings.states)
    return Condensed(recordings.task, recordings.key, first, recordings.actions.astype(small), recordings.rewards)


def restore(env: Env, condensed: Condensed, inserted: Int[Array, " seeds"]) -> Recording:
    """Everything else, worked out again; slots that nothing was inserted into are empty."""
    played = collect.again(env, condensed.first, condensed.task, condensed.key, condensed.actions)
    played = replace(played, rewards=condensed.rewards)
    held = jnp.arange(condensed.task.shape[1]) < inserted[:, None]
    return jax.tree.map(lambda leaf: collect.keep(held, leaf, jnp.zeros_like(leaf)), played)


def same(one: Recording, other: Recording) -> Bool[Array, ""]:
    """Whether two are equal to the last bit."""
    equal = jax.tree.map(lambda one, other: (bits(one) == bits(other)).all(), one, other)
    return jnp.stack(jax.tree.leaves(equal)).all()


def bits(values: PyTree) -> Array:
    """Numbers as the bits they are made of: 0 is not -0 here, and a number that is none is itself."""
    return jax.lax.bitcast_convert_type(values, jnp.uint32) if values.dtype == jnp.float32 else values
