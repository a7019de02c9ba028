"""Environments that run continuously: every episode that ends is followed by a new one of another task.

A rollout is a window of fixed length of that stream, in all environments of all seeds.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from refil import shards
from refil.learning.losses import random_partition
from refil.nn.utilities import initial_state, step_views
from refil.rollout import epsilon_greedy, observe_batch, reset_envs, select, vmap_flat
from refil.training.onpolicy import tasks
from refil.training.setup import Setup
from refil.types import EpisodeBatch, Observation


class Start(eqx.Module):
    """Tasks and first states of new episodes, and the partitions of their entities for imagined views."""

    tasks: Int[Array, "seeds envs"]
    env_states: PyTree
    groups: Int[Array, "seeds envs entities"]


class Stream(eqx.Module):
    """Episodes in progress, and the recent win rate of every task.

    `memory` is the utility's state for each view, `[seeds, views, envs, agents, ...]`.
    """

    tasks: Int[Array, "seeds envs"]
    env_states: PyTree
    groups: Int[Array, "seeds envs entities"]
    memory: PyTree
    last_action: Int[Array, "seeds envs agents"]
    time: Int[Array, "seeds envs"]
    won: Bool[Array, "seeds envs"]
    win_rates: Float[Array, "seeds tasks"]


class Step(eqx.Module):
    """One step of all environments; `won` is true from the step on at which an episode is won."""

    tasks: Int[Array, "*batch"]
    observation: Observation
    groups: Int[Array, "*batch entities"]
    actions: Int[Array, "*batch agents"]
    reward: Float[Array, "*batch"]
    terminated: Bool[Array, "*batch"]
    truncated: Bool[Array, "*batch"]
    won: Bool[Array, "*batch"]


def init_stream(setup: Setup, models: Any, keys: Key[Array, " seeds"]) -> Stream:
    """Start an episode in every environment."""
    win_rates = jnp.zeros((len(keys), len(setup.env.task_names)))
    start, agents = new_episodes(setup, win_rates, keys), setup.env.spec.agents
    shape = start.groups.shape[:2]
    views = len(jax.eval_shape(setup.method.views, *_view_shapes(setup)))
    memory = jax.vmap(lambda model: initial_state(model.utility, views, shape[1], agents))(models)
    last_action = jnp.full((*shape, agents), -1)
    time, won = jnp.zeros(shape, jnp.int32), jnp.zeros(shape, bool)
    return Stream(start.tasks, start.env_states, start.groups, memory, last_action, time, won, win_rates)


def _view_shapes(setup: Setup) -> tuple[Any, Any]:
    agents, entities = setup.env.spec.agents, setup.env.spec.entities
    return jax.ShapeDtypeStruct((agents, entities), bool), jax.ShapeDtypeStruct((entities,), jnp.int32)


def new_episodes(setup: Setup, win_rates: Float[Array, "seeds tasks"], keys: Key[Array, " seeds"]) -> Start:
    """Sample a task, its first state and a partition of its entities for every environment."""
    env = setup.env
    task_keys, reset_keys, group_keys = _env_keys(setup, 3, keys)
    chosen = tasks.sample(setup.algorithm.learnability, win_rates, task_keys)
    partition = partial(random_partition, env.spec.entities, setup.method.num_groups)
    return Start(chosen, reset_envs(env, chosen, reset_keys), jax.vmap(jax.vmap(partition))(group_keys))


def _env_keys(setup: Setup, number: int, keys: Key[Array, " seeds"]) -> Key[Array, "number seeds envs"]:
    """Return this number of keys for every environment; on devices that share seeds, for those that a device plays in."""
    found = jnp.moveaxis(jax.vmap(lambda key: jax.random.split(key, (number, setup.train.envs)))(keys), 1, 0)
    shared = shards.current.get()
    return shared.own(found, axis=2) if shared else found


def rollout(
    setup: Setup, models: Any, epsilon: Float[Array, " seeds"], stream: Stream, keys: Key[Array, " seeds"]
) -> tuple[Stream, EpisodeBatch, Int[Array, " seeds"]]:
    """Make `algorithm.rollout` steps in every environment; return the stream, the batch, and how many episodes ended."""
    shared, envs = shards.current.get(), setup.train.envs
    stream = _over_envs(shared.own, stream) if shared else stream
    length, chunk = setup.algorithm.rollout, min(setup.algorithm.rollout, setup.algorithm.reset_every)
    chunk_keys = jnp.swapaxes(jax.vmap(lambda key: jax.random.split(key, (length // chunk, 1 + chunk)))(keys), 0, 1)

    def play_chunk(stream: Stream, keys: Key[Array, "seeds steps"]) -> tuple[Stream, Step]:
        starts = new_episodes(setup, stream.win_rates, keys[:, 0])
        return jax.lax.scan(partial(step, setup, models, epsilon, starts), stream, jnp.swapaxes(keys[:, 1:], 0, 1))

    after, steps = jax.lax.scan(play_chunk, stream, chunk_keys)
    steps = jax.tree.map(lambda leaf: leaf.reshape(length, *leaf.shape[2:]), steps)
    if shared:
        after, steps = _over_envs(partial(shared.gather, length=envs), after), shared.gather(steps, axis=2, length=envs)
    ended = steps.terminated | steps.truncated
    after = replace(after, win_rates=tasks.update(after.win_rates, steps.tasks, ended, steps.won))
    return after, to_batch(setup, steps, after), ended.sum(axis=(0, 2))


def _over_envs(function: Callable[[PyTree, int], PyTree], stream: Stream) -> Stream:
    """Apply a function to all arrays that have environments, given the axis of these."""
    names = ("tasks", "env_states", "groups", "last_action", "time", "won")
    return replace(stream, memory=function(stream.memory, 2), **function({name: getattr(stream, name) for name in names}, 1))


def step(
    setup: Setup, models: Any, epsilon: Float[Array, " seeds"], starts: Start, stream: Stream, keys: Key[Array, " seeds"]
) -> tuple[Stream, Step]:
    """Make one step in every environment; where an episode ends, the next one starts."""
    env = setup.env
    policy_keys, env_keys = _env_keys(setup, 2, keys)
    obs = observe(setup, stream)
    memory, q = jax.vmap(partial(_act, setup))(models, stream.memory, obs, stream.groups)
    actions = jax.vmap(jax.vmap(epsilon_greedy, in_axes=(0, 0, None, 0)))(q, obs.available, epsilon, policy_keys)
    env_states, outcome = vmap_flat(env.step)(stream.env_states, actions, env_keys)
    truncated = ~outcome.terminated & (stream.time + 1 >= env.spec.horizon)
    ended, won = outcome.terminated | truncated, stream.won | outcome.won
    after = Stream(
        tasks=jnp.where(ended, starts.tasks, stream.tasks),
        env_states=jax.tree.map(partial(select, ended), starts.env_states, env_states),
        groups=select(ended, starts.groups, stream.groups),
        memory=memory,
        last_action=select(ended, jnp.full_like(actions, -1), actions),
        time=jnp.where(ended, 0, stream.time + 1),
        won=won & ~ended,
        win_rates=stream.win_rates,
    )
    played = stored(setup, obs), stream.groups, actions, outcome.reward, outcome.terminated, truncated
    return after, Step(stream.tasks, *played, won)


def observe(setup: Setup, stream: Stream) -> Observation:
    """Observe the current timestep of all environments."""
    return observe_batch(setup.env, stream.env_states, stream.last_action, stream.time == 0)


def stored(setup: Setup, obs: Observation) -> Observation:
    """Return an observation as batches store it: in the compute type."""
    return replace(obs, entities=obs.entities.astype(setup.compute_dtype))


def _act(
    setup: Setup, model: Any, memory: PyTree, obs: Observation, groups: Int[Array, "envs entities"]
) -> tuple[PyTree, Float[Array, "envs agents actions"]]:
    """Advance the memory of every view of one seed's team, and return the Q-values of what is visible."""
    views = setup.method.views(obs.visible, groups)
    initial = initial_state(model.utility, *views.shape[:-1])
    assert obs.is_first is not None
    is_first = jnp.broadcast_to(obs.is_first, views.shape[:-2])
    return step_views(model.utility, jax.tree.map(partial(select, is_first), initial, memory), obs, views)


def to_batch(setup: Setup, steps: Step, after: Stream) -> EpisodeBatch:
    """Return the steps as batches of each seed, `[seeds, envs, time, ...]`, with the observation after the last step.

    The memory that the rollout started from is still in the state of training: `start` is filled in there. As a result of
    playing it would be the same buffer in memory, which learning overwrites.
    """
    last = stored(setup, observe(setup, after)), after.groups
    seen = jax.tree.map(lambda many, one: jnp.concatenate([many, one[None]]), (steps.observation, steps.groups), last)
    (obs, groups), acted = jax.tree.map(
        lambda leaf: jnp.moveaxis(leaf, 0, 2), (seen, (steps.actions, steps.reward, steps.terminated, ~steps.truncated))
    )
    return EpisodeBatch(
        observations=obs,
        episode_id=_episode_ids(obs.is_first),
        actions=acted[0],
        rewards=acted[1],
        terminated=acted[2],
        valid=acted[3],
        num_episodes=obs.is_first[0].size,
        groups=groups,
    )


def _episode_ids(is_first: Bool[Array, "seeds envs timesteps"]) -> Int[Array, "seeds envs timesteps"]:
    """Number the episodes of each seed, in every environment from a number of its own on."""
    envs, timesteps = is_first.shape[1:]
    within = jnp.cumsum(is_first.at[:, :, 0].set(False), axis=-1)
    return within + timesteps * jnp.arange(envs)[:, None]
