"""Plays whole episodes, all seeds and all environments side by side, and sees recorded ones again.

The loop stands outside the batch: under vmap, a loop whose end depends on the data would copy everything at every step.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt32

from refil import exploration
from refil.training.replay import packing
from refil.training.replay.packing import Places, Size
from refil.types import Env, Episode, Model, Observation, Trajectory

CHANCE = 7  # sets the key of networks that leave something to chance apart from that of the choice of actions


class Play(eqx.Module):
    """A batch of episodes under way; `rows` is time first, so that a step writes in one place."""

    time: Int[Array, ""]
    states: PyTree
    memory: Float[Array, "..."]
    last_action: Int[Array, "seeds envs agents"]
    playing: Bool[Array, "seeds envs"]
    won: Bool[Array, "seeds envs"]
    rows: tuple[PyTree, Array, Array, Array, Array]


Choose = Callable[[Play, Key[Array, "seeds envs"]], tuple[Array, Array]]  # the memory that follows, and actions


def collect(
    env: Env, models: Model, tasks: Int[Array, "seeds envs"], epsilon: Float[Array, " seeds"], keys: Key[Array, " seeds"]
) -> Trajectory:
    """One episode of every task given, played by its seed's model; `keys` has one key per seed."""

    def choose(play: Play, keys: Key[Array, "seeds envs"]) -> tuple[Array, Array]:
        obs = see(env, play.states, play.last_action)
        by_chance = jax.vmap(lambda key: jax.random.fold_in(key, CHANCE))(keys[:, 0])  # one for all environments of a seed
        memory, q = jax.vmap(lambda model, *now: model.utility.step(*now))(models, play.memory, obs, by_chance)
        return memory, jax.vmap(jax.vmap(exploration.epsilon_greedy, in_axes=(0, 0, None, 0)))(q, obs.available, epsilon, keys)

    memory = jax.vmap(lambda model: model.utility.start(tasks.shape[1], env.spec.agents))(models)
    keys = jax.vmap(partial(jax.random.split, num=tasks.shape[1]))(keys)
    rows = jax.tree.map(lambda leaf: jnp.asarray(leaf)[tasks], env.tasks)
    first = jax.vmap(jax.vmap(env.reset))(rows, jax.vmap(jax.vmap(lambda key: jax.random.fold_in(key, 0)))(keys))
    return record(env, first, tasks, keys, memory, choose)


def again(
    env: Env,
    first: PyTree,
    tasks: Int[Array, "seeds envs"],
    keys: UInt32[Array, "seeds envs words"],
    actions: Int[Array, "seeds envs time agents"],
) -> Trajectory:
    """The same episodes once more: given their first states, their keys and what was done in them, all else follows."""

    def choose(play: Play, keys: Key[Array, "seeds envs"]) -> tuple[Array, Array]:
        return play.memory, actions[:, :, play.time].astype(jnp.int32)

    return record(env, first, tasks, jax.random.wrap_key_data(keys), jnp.zeros(()), choose)


def record(
    env: Env, first: PyTree, tasks: Int[Array, "seeds envs"], keys: Key[Array, "seeds envs"], memory: Array, choose: Choose
) -> Trajectory:
    """Episodes from their first states to their end, each with its own key; `tasks` is for the record."""
    end = jax.lax.while_loop(
        lambda play: play.playing.any() & (play.time < env.spec.horizon),
        lambda play: advance(env, choose, keys, play),
        begin(env, first, memory),
    )
    # The instant after the last step: only there does a state follow whose row no step has written.
    last = jax.tree.map(lambda rows, state: rows.at[end.time].set(state), end.rows[0], end.states)
    states, *steps, valid = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 2), (last, *end.rows[1:]))
    # What lies after an episode's end would depend on how long the others took: it is wiped.
    seen = jnp.pad(valid[:, :, :-1], [(0, 0), (0, 0), (1, 0)], constant_values=True)
    states = jax.tree.map(partial(keep, seen), states, jax.tree.map(jnp.zeros_like, states))
    actions, rewards, terminated = (keep(valid, leaf, jnp.zeros_like(leaf))[:, :, :-1] for leaf in steps)
    return Trajectory(states, actions, rewards, terminated, valid[:, :, :-1], end.won, tasks, jax.random.key_data(keys))


def random_tasks(env: Env, models: Model, envs: int, epsilon: Float[Array, " seeds"], keys: Key[Array, " seeds"]) -> Trajectory:
    """So many episodes of each seed, every task equally likely."""
    keys = jax.vmap(jax.random.split)(keys)
    tasks = jax.vmap(lambda key: jax.random.randint(key, (envs,), 0, len(env.task_names)))(keys[:, 0])
    return collect(env, models, tasks, epsilon, keys[:, 1])


def begin(env: Env, states: PyTree, memory: Array) -> Play:
    """Everything at its start."""
    (seeds, envs), spec = jax.tree.leaves(states)[0].shape[:2], env.spec
    last_action = jnp.full((seeds, envs, spec.agents), -1)
    flags = jnp.zeros((seeds, envs), bool)
    row = states, last_action, jnp.zeros((seeds, envs)), flags, flags
    return Play(
        time=jnp.zeros((), jnp.int32),
        states=states,
        memory=memory,
        last_action=last_action,
        playing=~flags,
        won=flags,
        rows=jax.tree.map(lambda leaf: jnp.zeros((spec.horizon + 1, *leaf.shape), leaf.dtype), row),
    )


def advance(env: Env, choose: Choose, keys: Key[Array, "seeds envs"], play: Play) -> Play:
    """One step of every episode that is not over; the others stand still."""
    keys = jax.vmap(jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, play.time + 1))))(keys)
    memory, actions = choose(play, keys[:, :, 0])
    states, outcome = jax.vmap(jax.vmap(env.step))(play.states, actions, keys[:, :, 1])

    row = play.states, actions, outcome.reward, outcome.terminated, play.playing
    return Play(
        time=play.time + 1,
        states=jax.tree.map(partial(keep, play.playing), states, play.states),
        memory=memory,
        last_action=actions,
        playing=play.playing & ~outcome.terminated,
        won=play.won | (play.playing & outcome.won),
        rows=jax.tree.map(lambda rows, new: rows.at[play.time].set(new), play.rows, row),
    )


def keep(wanted: Bool[Array, "..."], new: Array, old: Array) -> Array:
    """The new value where wanted, the old one elsewhere."""
    return jnp.where(wanted.reshape(wanted.shape + (1,) * (new.ndim - wanted.ndim)), new, old)


def see(env: Env, states: PyTree, last_action: Int[Array, "one two agents"]) -> Observation:
    """Observe states with two leading axes."""
    return replace(jax.vmap(jax.vmap(env.observe))(states), last_action=last_action)


def recall(env: Env, trajectories: Trajectory, places: Places | None = None, size: Size | None = None) -> Episode:
    """See a batch of recorded episodes again: each on a row of time, or, given places, all on a line of this size."""
    count, instants = trajectories.valid.shape[0], trajectories.valid.shape[1] + 1
    if places is None or size is None:
        number = jnp.broadcast_to(jnp.arange(count)[:, None], (count, instants))
        first, turns = jnp.broadcast_to(jnp.arange(instants) == 0, (count, instants)), None
    else:
        trajectories, number, first, turns = packing.fold(trajectories, places, size)
    before = jnp.full_like(trajectories.actions[:, :1], -1)
    last_action = jnp.where(first[..., None], -1, jnp.concatenate([before, trajectories.actions], axis=1))
    observations = replace(see(env, trajectories.states, last_action), turns=turns)
    steps = trajectories.actions, trajectories.rewards, trajectories.terminated, trajectories.valid
    return Episode(observations, number, *steps, count)
