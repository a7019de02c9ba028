"""The paper's algorithm: play a round of episodes, store them in the replay buffer, make as many updates.

The trainer calls `init`, `play`, `learn`, `models` and `scalars`; before training it also calls `rows_per_seed`,
`required_bytes`, `rollout_shapes` and `compressor`. Everything a seed does depends only on its own state and number: a seed
trained alone equals the same seed in a batch, and a saved state continues bit-identically.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from refil.nn.utilities import team_policy, team_state
from refil.rollout import derive_keys, rollout_random_tasks
from refil.training import counters
from refil.training.counters import Counters
from refil.training.memory import episode_bytes, num_bytes
from refil.training.replay import buffer, update
from refil.training.replay.buffer import ReplayBuffer
from refil.training.replay.compression import ReplayCompressor
from refil.training.replay.update import LearnerState
from refil.training.setup import INIT, LEARN, PLAY, Setup
from refil.types import Trajectory


class TrainState(eqx.Module):
    """The whole state of training; every array has the seeds as its first axis."""

    counters: Counters
    learner: LearnerState
    replay: ReplayBuffer


def init(setup: Setup, model: Any = None, first_seed: Int[Array, ""] | None = None) -> TrainState:
    """Return the state before training; every seed starts from its own random model, or from the given one."""
    start = counters.init(setup.train, [], first_seed)

    def init_learner(key: Array) -> LearnerState:
        own = setup.method.init(key) if model is None else model
        return update.init_learner(setup, own, own)

    learner = jax.vmap(init_learner)(derive_keys(start.seed, INIT, start.episodes))
    played = jax.eval_shape(partial(_play, setup), learner.model, start)
    size = (setup.train.seeds, setup.algorithm.buffer)
    ring = jax.tree.map(lambda leaf: jnp.zeros((*size, *leaf.shape[2:]), leaf.dtype), played)
    names = _metric_names(setup, learner, played)
    return TrainState(counters.init(setup.train, names, first_seed), learner, ReplayBuffer(ring, start.episodes))


def _metric_names(setup: Setup, learner: LearnerState, played: Trajectory) -> list[str]:
    def metrics(learner: LearnerState, trajectories: Trajectory) -> dict[str, Array]:
        return update.gradient(setup, learner, buffer.rebuild_batch(setup.env, trajectories), jax.random.key(0))[1]

    one_seed = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), (learner, played))
    return list(jax.eval_shape(metrics, *one_seed))


def play(setup: Setup, state: TrainState) -> Trajectory:
    """Play one episode in every environment of every seed."""
    return _play(setup, models(state), state.counters)


def _play(setup: Setup, team: Any, counts: Counters) -> Trajectory:
    policy = team_policy(team, epsilon(setup, counts))
    policy_state = team_state(team, setup.train.envs, setup.env.spec.agents)
    keys = derive_keys(counts.seed, PLAY, counts.episodes)
    return replace(rollout_random_tasks(setup.env, policy, policy_state, setup.train.envs, keys), metrics={})


def rollout_shapes(setup: Setup, state: TrainState, play: Any) -> Trajectory:
    """Return the shapes of what `play` returns, without tracing it, so that `learn` can be compiled at once."""
    leading = (setup.train.seeds, setup.train.envs)
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((*leading, *leaf.shape[2:]), leaf.dtype), state.replay.trajectories)


def learn(setup: Setup, state: TrainState, trajectories: Trajectory) -> TrainState:
    """Store the episodes and make one update per episode; seeds that have made all their steps keep their state."""
    counts, envs = state.counters, setup.train.envs
    running = counts.env_steps < setup.train.steps
    replay = jax.vmap(buffer.insert)(state.replay, trajectories, running)
    ready = running & (replay.num_inserted >= setup.algorithm.batch)
    learner, metrics = jax.lax.cond(
        ready.any(),
        partial(update.run_updates, setup),
        lambda learner, metrics, *rest: (learner, metrics),
        *(state.learner, counts.metrics, replay, counts.episodes, ready, derive_keys(counts.seed, LEARN, counts.episodes)),
    )
    made = jnp.where(ready, envs, 0)
    counts = replace(
        counts,
        episodes=counts.episodes + jnp.where(running, envs, 0),
        env_steps=counts.env_steps + jnp.where(running, trajectories.valid.sum(axis=(1, 2)), 0),
        updates=counts.updates + made,
        updates_since_log=counts.updates_since_log + made,
        metrics=metrics,
    )
    return TrainState(counts, learner, replay)


def iterate(setup: Setup, state: TrainState) -> TrainState:
    """Run one iteration: `play`, then `learn`."""
    return learn(setup, state, play(setup, state))


def models(state: TrainState) -> Any:
    """Return each seed's model, to act with and to evaluate."""
    return state.learner.model


def epsilon(setup: Setup, counts: Counters) -> Float[Array, " seeds"]:
    """Return each seed's probability of a random action: annealed linearly from 1 to its final value."""
    finish, steps = setup.algorithm.epsilon_finish, setup.algorithm.epsilon_steps
    return jnp.maximum(finish, 1.0 - (1.0 - finish) * counts.env_steps / steps)


def scalars(setup: Setup, state: TrainState) -> dict[str, Float[Array, " seeds"]]:
    """Return the numbers of the algorithm that are logged with the metrics."""
    return {"epsilon": epsilon(setup, state.counters)}


def rows_per_seed(setup: Setup) -> int:
    """Return the number that devices sharing a seed must divide: episodes of a batch, or environments where they only play."""
    return setup.algorithm.batch if setup.method.shareable else setup.train.envs


def required_bytes(setup: Setup, seeds: int, shared_by: int = 1) -> dict[str, int]:
    """Return the bytes that a device needs at least for this many seeds, by the option that they depend on.

    Nothing is compiled. The replay buffer is whole on each of the devices that share the seeds.
    """
    played, evaluated = (math.ceil(episodes / shared_by) for episodes in (setup.train.envs, setup.train.eval_episodes))
    batch = setup.algorithm.batch // (shared_by if setup.method.shareable else 1)
    train, timesteps, episode = setup.train, setup.env.spec.horizon + 1, episode_bytes(setup.env)
    model = jax.eval_shape(setup.method.init, jax.random.key(0))
    learner = jax.eval_shape(partial(update.init_learner, setup), model, model)
    return {
        "algorithm.buffer": seeds * setup.algorithm.buffer * episode.trajectory,
        "train.envs": seeds * (train.envs * episode.trajectory + played * episode.observation),
        "train.eval_episodes": seeds * evaluated * (episode.state + episode.observation),
        "algorithm.batch": min(seeds, update.MAX_VMAPPED) * batch * timesteps * episode.observation,
        "the size of the networks": seeds * num_bytes(learner),
    }


def compressor(setup: Setup) -> ReplayCompressor:
    """Return the compressor that makes checkpoints compact."""
    return ReplayCompressor(setup.env)
