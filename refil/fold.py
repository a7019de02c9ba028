"""Lays several short episodes one after another on the same row of time, so that little of a batch is padding.

A team that has learned its task needs a few steps where the horizon allows many. A batch folded by 4 has a quarter of
the rows; each still has the length of the horizon, and nothing that is learned from it changes.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from refil.types import Recording


def factors(batch: int) -> tuple[int, ...]:
    """How often a batch may be folded, most first; each is compiled on its own."""
    return tuple(factor for factor in (4, 2, 1) if batch % factor == 0)


def fits(recordings: Recording, factor: int) -> Bool[Array, ""]:
    """Whether a batch of episodes can be folded so often."""
    room = recordings.valid.shape[-1] + 1
    return (starts(arrange(recordings, factor)[1])[-1] <= room).all()


def arrange(recordings: Recording, factor: int) -> tuple[Int[Array, "factor rows"], Int[Array, "factor rows"]]:
    """Which episodes share a row, in order, and how many instants each has: long ones with short ones."""
    instants = recordings.valid.sum(axis=-1) + 1
    longest_first = jnp.argsort(-instants).reshape(factor, -1)
    turns = jnp.arange(factor)[:, None] % 2 == 1  # like an ox at the plough, to and fro
    chosen = jnp.where(turns, longest_first[:, ::-1], longest_first)
    return chosen, instants[chosen]


def starts(instants: Int[Array, "factor rows"]) -> Int[Array, "ends rows"]:
    """Where on its row each episode starts, and where the last one ends."""
    return jnp.concatenate([jnp.zeros_like(instants[:1]), jnp.cumsum(instants, axis=0)])


def fold(recordings: Recording, factor: int) -> tuple[Recording, Int[Array, "rows instants"], Bool[Array, "rows instants"]]:
    """The folded batch; which of the episodes each instant is from; and which instants are the first of theirs."""
    place = jnp.arange(recordings.valid.shape[-1] + 1)
    if factor == 1:
        shape = len(recordings.won), len(place)
        return recordings, jnp.broadcast_to(jnp.arange(shape[0])[:, None], shape), jnp.broadcast_to(place == 0, shape)
    chosen, instants = arrange(recordings, factor)
    begin = starts(instants)[:-1]
    turn = (place[:, None, None] >= begin).sum(axis=1).T - 1  # which of a row's episodes each place belongs to
    episode = jnp.take_along_axis(chosen.T, turn, axis=1)
    time = place - jnp.take_along_axis(begin.T, turn, axis=1)
    first = time == 0
    # Past the last episode's end times run on over its padding; the last instant of an episode leads nowhere.
    time = jnp.minimum(time, place[-1])
    step = episode[:, :-1], jnp.minimum(time[:, :-1], place[-2])
    folded = Recording(
        states=jax.tree.map(lambda leaf: leaf[episode, time], recordings.states),
        actions=recordings.actions[step],
        rewards=recordings.rewards[step],
        terminated=recordings.terminated[step],
        valid=recordings.valid[step] & (time[:, :-1] < place[-1]),
        won=recordings.won[chosen[0]],
        task=recordings.task[chosen[0]],
    )
    return folded, episode, first
