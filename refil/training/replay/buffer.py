"""A ring of whole episodes. Everything here is for one seed; seeds are added by vmap."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from refil.types import Trajectory


class Replay(eqx.Module):
    """The latest episodes; `inserted` counts all that ever came in."""

    trajectories: Trajectory
    inserted: Int[Array, "*seeds"]


def insert(replay: Replay, trajectories: Trajectory, wanted: Bool[Array, ""]) -> Replay:
    """Replace the oldest episodes; nothing changes where the episodes are not wanted."""
    capacity, count = replay.trajectories.won.shape[0], trajectories.won.shape[0]
    slots = (replay.inserted + jnp.arange(count)) % capacity
    slots = jnp.where(wanted, slots, capacity)  # out of bounds: dropped, without reading what is there
    ring = jax.tree.map(lambda old, new: old.at[slots].set(new, mode="drop"), replay.trajectories, trajectories)
    return Replay(ring, replay.inserted + jnp.where(wanted, count, 0))


def draw(replay: Replay, size: int, key: PRNGKeyArray) -> Int[Array, " size"]:
    """Slots of `size` different episodes, all held ones equally likely; the replay must hold that many."""
    capacity = replay.trajectories.won.shape[0]
    lots = jnp.where(jnp.arange(capacity) < replay.inserted, jax.random.uniform(key, (capacity,)), -1.0)
    return jax.lax.top_k(lots, size)[1]


def take(replay: Replay, slots: Int[Array, " size"]) -> Trajectory:
    """The episodes in these slots."""
    return jax.tree.map(lambda leaf: leaf[slots], replay.trajectories)
