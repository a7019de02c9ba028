"""Lays several short episodes one after another on the same row of time, so that little of a batch is padding.

A team that has learned its task needs a few steps where the horizon allows many. Folded onto a quarter of the rows, a
batch costs a quarter; each row still has the length of the horizon, and nothing that is learned from it changes.
"""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from refil.types import Recording


class Places(eqx.Module):
    """Where each episode lies: its row, its first instant there, and how many instants it has."""

    row: Int[Array, "*batch episodes"]
    start: Int[Array, "*batch episodes"]
    instants: Int[Array, "*batch episodes"]
    rows: int = eqx.field(static=True)


def sizes(batch: int, shares: Sequence[float]) -> tuple[int, ...]:
    """The numbers of rows that a batch may be folded onto, fewest first; each is compiled on its own."""
    return tuple(sorted({max(1, math.ceil(batch * share)) for share in (*shares, 1)}))


def arrange(valid: Bool[Array, "episodes time"], rows: int) -> tuple[Places, Bool[Array, ""]]:
    """A place for every episode, longest first, each on the first row with room; and whether all found one."""
    instants, room_of_row = valid.sum(axis=-1) + 1, valid.shape[-1] + 1

    def place(room: Array, instants: Array) -> tuple[Array, tuple[Array, Array]]:
        row = jnp.argmax(room >= instants)
        left = room[row]
        return room.at[row].add(-instants), (row, left)

    longest_first = jnp.argsort(-instants)
    room, (row, left) = jax.lax.scan(place, jnp.full((rows,), room_of_row), instants[longest_first])
    back = jnp.argsort(longest_first)
    return Places(row[back], room_of_row - left[back], instants, rows), (room >= 0).all()


def fold(
    recordings: Recording, places: Places | None
) -> tuple[Recording, Int[Array, "rows instants"], Bool[Array, "rows instants"]]:
    """The folded batch; which of the episodes each instant is from; and which instants are the first of theirs.

    Without places, each episode has a row of its own.
    """
    episodes, horizon = recordings.valid.shape
    time = jnp.arange(horizon + 1)
    if places is None:
        shape = episodes, horizon + 1
        return recordings, jnp.broadcast_to(jnp.arange(episodes)[:, None], shape), jnp.broadcast_to(time == 0, shape)
    rows = places.rows
    # Every instant of every episode writes its number where it lies; places that none takes repeat an episode's padding.
    there = places.row[:, None] * (horizon + 1) + places.start[:, None] + time
    there = jnp.where(time < places.instants[:, None], there, rows * (horizon + 1))
    mine = jnp.arange(episodes)[:, None] * (horizon + 1) + time
    nothing = jnp.full((rows * (horizon + 1),), horizon)
    source = nothing.at[there.reshape(-1)].set(mine.reshape(-1), mode="drop").reshape(rows, horizon + 1)
    taken = jnp.zeros_like(nothing, bool).at[there.reshape(-1)].set(True, mode="drop").reshape(rows, horizon + 1)
    episode, instant = source // (horizon + 1), source % (horizon + 1)
    step = episode[:, :-1], jnp.minimum(instant[:, :-1], horizon - 1)
    folded = Recording(
        states=jax.tree.map(lambda leaf: leaf[episode, instant], recordings.states),
        actions=recordings.actions[step],
        rewards=recordings.rewards[step],
        terminated=recordings.terminated[step],
        valid=recordings.valid[step] & taken[:, :-1] & (instant[:, :-1] < horizon),
        won=recordings.won[episode[:, 0]],
        task=recordings.task[episode[:, 0]],
        key=recordings.key[episode[:, 0]],
    )
    return folded, episode, taken & (instant == 0)
