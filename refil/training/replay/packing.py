"""Lays the episodes of a batch one after another on a line of instants, so that little of a batch is padding.

A team that has learned its task needs a few steps where the horizon allows many. Nearly all that is computed looks at
instants one by one, and on a line there are about as many as were played. What remembers needs rows of time, and shares
those out among episodes that fit behind one another. Nothing that is learned from a batch changes.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from refil.types import Trajectory, Turns

EVEN = 2  # rows come in pairs: a GPU takes 16 memories at once, and on StarCraft a row has eight
CROWDED = 7 / 16  # of what a batch would fill unfolded: where it fills more, many an episode is too long to share a row
LEAST = 2  # instants of an episode


class Size(NamedTuple):
    """What a batch may be folded onto: a line of so many instants, and so many rows of time."""

    instants: int
    rows: int


class Places(eqx.Module):
    """Of each episode: how many instants it has; and the row of time that it lies on, and its first instant there."""

    instants: Int[Array, "*batch episodes"]
    row: Int[Array, "*batch episodes"]
    start: Int[Array, "*batch episodes"]


def sizes(batch: int, horizon: int, shares: Sequence[float]) -> tuple[Size, ...]:
    """What a batch may be folded onto that has these shares of its instants, fewest first; each is compiled on its own."""
    of_episode = {max(LEAST, math.ceil((horizon + 1) * share)) for share in shares}  # on average
    lines = [batch * each for each in sorted(of_episode) if each <= horizon]
    return tuple(Size(instants, rows_for(instants, batch, horizon)) for instants in lines)


def rows_for(instants: int, batch: int, horizon: int) -> int:
    """Rows of time that episodes of so many instants in all find room on.

    They are more than all would fill, since what is left of a row is often too short for another episode.
    """
    filled = instants / (horizon + 1)
    spare = max(1, filled - CROWDED * batch)
    return min(batch, EVEN * math.ceil((filled + spare) / EVEN))


def arrange(valid: Bool[Array, "episodes time"]) -> Places:
    """A place on rows of time for every episode: longest first, each on the first row with room."""
    instants, room_of_row = valid.sum(axis=-1) + 1, valid.shape[-1] + 1

    def place(room: Array, instants: Array) -> tuple[Array, tuple[Array, Array]]:
        row = jnp.argmax(room >= instants)
        return room.at[row].add(-instants), (row, room_of_row - room[row])

    longest_first = jnp.argsort(-instants)
    _, (row, start) = jax.lax.scan(place, jnp.full((len(valid),), room_of_row), instants[longest_first])
    back = jnp.argsort(longest_first)
    return Places(instants, row[back], start[back])


def fits(places: Places, size: Size) -> Bool[Array, "*batch"]:
    """Whether all episodes have room."""
    return (places.instants.sum(axis=-1) <= size.instants) & (places.row.max(axis=-1) < size.rows)


class Folded(NamedTuple):
    """A batch on a line, with a leading axis of one; the episode that each instant is from; which are the first of theirs; when
    each has its turn. What a trajectory says of a whole episode is the first one's, and means nothing.
    """

    trajectory: Trajectory
    number: Int[Array, "one instants"]
    first: Bool[Array, "one instants"]
    turns: Turns


def fold(trajectories: Trajectory, places: Places, size: Size) -> Folded:
    """The batch, which must fit. What is left at the end of the line is not valid."""
    episodes, horizon = trajectories.valid.shape
    ends, here = jnp.cumsum(places.instants), jnp.arange(size.instants)
    taken = here < ends[-1]
    episode = jnp.minimum((ends <= here[:, None]).sum(axis=-1), episodes - 1)
    instant = jnp.minimum(here - (ends - places.instants)[episode], horizon)
    turn = (places.start[episode] + instant) * size.rows + places.row[episode]
    done = episode[:-1], jnp.minimum(instant[:-1], horizon - 1)
    trajectory = Trajectory(
        states=jax.tree.map(lambda leaf: leaf[episode, instant], trajectories.states),
        actions=trajectories.actions[done],
        rewards=trajectories.rewards[done],
        terminated=trajectories.terminated[done],
        valid=trajectories.valid[done] & taken[:-1] & (instant[:-1] < horizon),
        won=trajectories.won[0],
        task=trajectories.task[0],
        key=trajectories.key[0],
    )
    turns = Turns(jnp.where(taken, turn, size.rows * (horizon + 1)), size.rows, horizon + 1)
    on_a_line = trajectory, episode, taken & (instant == 0), turns
    return Folded(*jax.tree.map(lambda leaf: leaf[None], on_a_line))
