"""The replay buffer, and batches from it: sampled, packed and observed again. Everything here is for one seed.

A trained team needs few steps of the many that the horizon allows. Packing puts the episodes of a batch one after another
into a single row of timesteps, so that little of it is padding. Only recurrent networks need rows of time, and the plan says
how several episodes share one. Packing changes nothing that is learned.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from refil.rollout import observe_batch
from refil.types import Env, EpisodeBatch, PackIndex, Trajectory

ROW_MULTIPLE = 2  # the GRU kernel processes 16 hidden states at a time, and a StarCraft row has eight
MAX_PACKED_FRACTION = 7 / 16  # fraction of the padded size; in fuller batches many episodes are too long to share a row
MIN_TIMESTEPS = 2  # shortest episode


class ReplayBuffer(eqx.Module):
    """The latest episodes, in a ring; `num_inserted` counts all that were ever inserted."""

    trajectories: Trajectory
    num_inserted: Int[Array, "*seeds"]


def insert(buffer: ReplayBuffer, trajectories: Trajectory, wanted: Bool[Array, ""]) -> ReplayBuffer:
    """Replace the oldest episodes; nothing changes unless the new ones are wanted."""
    capacity, count = buffer.trajectories.won.shape[0], trajectories.won.shape[0]
    slots = (buffer.num_inserted + jnp.arange(count)) % capacity
    slots = jnp.where(wanted, slots, capacity)  # writes out of bounds are dropped
    ring = jax.tree.map(lambda old, new: old.at[slots].set(new, mode="drop"), buffer.trajectories, trajectories)
    return ReplayBuffer(ring, buffer.num_inserted + jnp.where(wanted, count, 0))


def sample_indices(buffer: ReplayBuffer, size: int, key: PRNGKeyArray) -> Int[Array, " size"]:
    """Sample the slots of `size` different episodes uniformly; the buffer must hold that many."""
    capacity = buffer.trajectories.won.shape[0]
    priority = jnp.where(jnp.arange(capacity) < buffer.num_inserted, jax.random.uniform(key, (capacity,)), -1.0)
    return jax.lax.top_k(priority, size)[1]


def take_episodes(buffer: ReplayBuffer, slots: Int[Array, " size"]) -> Trajectory:
    """Return the episodes in these slots."""
    return jax.tree.map(lambda leaf: leaf[slots], buffer.trajectories)


class PackSize(NamedTuple):
    """The size of a packed batch: timesteps in its single row, and rows of time for recurrent networks."""

    timesteps: int
    rows: int


class PackPlan(eqx.Module):
    """The length of each episode in timesteps, its row of time, and its first timestep there."""

    length: Int[Array, "*batch episodes"]
    row: Int[Array, "*batch episodes"]
    start: Int[Array, "*batch episodes"]


def pack_sizes(batch: int, horizon: int, fractions: Sequence[float]) -> tuple[PackSize, ...]:
    """Return the packed sizes for these fractions of the padded size, smallest first."""
    per_episode = {max(MIN_TIMESTEPS, math.ceil((horizon + 1) * fraction)) for fraction in fractions}
    totals = [batch * each for each in sorted(per_episode) if each <= horizon]
    return tuple(PackSize(total, _rows_for(total, batch, horizon)) for total in totals)


def _rows_for(timesteps: int, batch: int, horizon: int) -> int:
    """Return more rows than the timesteps would fill: what is left of a row is often too short for another episode."""
    filled = timesteps / (horizon + 1)
    spare = max(1, filled - MAX_PACKED_FRACTION * batch)
    return min(batch, ROW_MULTIPLE * math.ceil((filled + spare) / ROW_MULTIPLE))


def first_fit(valid: Bool[Array, "episodes time"]) -> PackPlan:
    """Plan rows of time: the longest episode first, each in the first row with enough room."""
    length, capacity = valid.sum(axis=-1) + 1, valid.shape[-1] + 1

    def place(room: Array, length: Array) -> tuple[Array, tuple[Array, Array]]:
        row = jnp.argmax(room >= length)
        return room.at[row].add(-length), (row, capacity - room[row])

    longest_first = jnp.argsort(-length)
    _, (row, start) = jax.lax.scan(place, jnp.full((len(valid),), capacity), length[longest_first])
    original_order = jnp.argsort(longest_first)
    return PackPlan(length, row[original_order], start[original_order])


def fits(plan: PackPlan, size: PackSize) -> Bool[Array, "*batch"]:
    """Return whether a batch fits into a packed size."""
    return (plan.length.sum(axis=-1) <= size.timesteps) & (plan.row.max(axis=-1) < size.rows)


class Packed(NamedTuple):
    """A batch in a single row; `trajectory` fields that describe a whole episode are meaningless."""

    trajectory: Trajectory
    episode_id: Int[Array, "one timesteps"]
    is_first: Bool[Array, "one timesteps"]
    index: PackIndex


def pack(trajectories: Trajectory, plan: PackPlan, size: PackSize) -> Packed:
    """Pack a batch that fits; unused timesteps at the end are not valid."""
    episodes, horizon = trajectories.valid.shape
    ends, here = jnp.cumsum(plan.length), jnp.arange(size.timesteps)
    used = here < ends[-1]
    episode = jnp.minimum((ends <= here[:, None]).sum(axis=-1), episodes - 1)
    timestep = jnp.minimum(here - (ends - plan.length)[episode], horizon)
    position = (plan.start[episode] + timestep) * size.rows + plan.row[episode]
    acted = episode[:-1], jnp.minimum(timestep[:-1], horizon - 1)
    trajectory = Trajectory(
        states=jax.tree.map(lambda leaf: leaf[episode, timestep], trajectories.states),
        actions=trajectories.actions[acted],
        rewards=trajectories.rewards[acted],
        terminated=trajectories.terminated[acted],
        valid=trajectories.valid[acted] & used[:-1] & (timestep[:-1] < horizon),
        won=trajectories.won[0],
        task=trajectories.task[0],
        key=trajectories.key[0],
    )
    index = PackIndex(jnp.where(used, position, size.rows * (horizon + 1)), size.rows, horizon + 1)
    packed = trajectory, episode, used & (timestep == 0), index
    return Packed(*jax.tree.map(lambda leaf: leaf[None], packed))


def rebuild_batch(
    env: Env, trajectories: Trajectory, plan: PackPlan | None = None, size: PackSize | None = None
) -> EpisodeBatch:
    """Observe stored episodes again: padded, or packed into the given size."""
    num_episodes, timesteps = trajectories.valid.shape[0], trajectories.valid.shape[1] + 1
    if plan is None or size is None:
        episode_id = jnp.broadcast_to(jnp.arange(num_episodes)[:, None], (num_episodes, timesteps))
        is_first, index = jnp.broadcast_to(jnp.arange(timesteps) == 0, (num_episodes, timesteps)), None
    else:
        trajectories, episode_id, is_first, index = pack(trajectories, plan, size)
    no_action = jnp.full_like(trajectories.actions[:, :1], -1)
    last_action = jnp.where(is_first[..., None], -1, jnp.concatenate([no_action, trajectories.actions], axis=1))
    steps = trajectories.actions, trajectories.rewards, trajectories.terminated, trajectories.valid
    return EpisodeBatch(observe_batch(env, trajectories.states, last_action, is_first), episode_id, *steps, num_episodes, index)
