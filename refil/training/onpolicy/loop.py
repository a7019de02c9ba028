"""On-policy training: play a rollout in environments that never stop, learn from it in a few epochs, and forget it.

The trainer calls the same functions as for training from a replay buffer. Everything a seed does
depends only on its own state and number.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from refil.rollout import derive_keys
from refil.training import counters
from refil.training.counters import Counters
from refil.training.memory import episode_bytes, num_bytes
from refil.training.onpolicy import stream, update
from refil.training.onpolicy.stream import Stream
from refil.training.onpolicy.update import LearnerState
from refil.training.setup import INIT, LEARN, PLAY, Setup
from refil.types import EpisodeBatch


class TrainState(eqx.Module):
    """The whole state of training; every array has the seeds as its first axis."""

    counters: Counters
    learner: LearnerState
    stream: Stream


class Rollout(eqx.Module):
    """The result of `play`: the stream after a rollout, the rollout itself, and the number of episodes that ended in it."""

    stream: Stream
    batch: EpisodeBatch
    ended: Int[Array, " seeds"]


def init(setup: Setup, model: Any = None, first_seed: Int[Array, ""] | None = None) -> TrainState:
    """Return the state before training; every seed starts from its own random model, or from the given one."""
    start = counters.init(setup.train, [], first_seed)

    def init_learner(key: Array) -> LearnerState:
        return update.init_learner(setup, setup.method.init(key) if model is None else model)

    keys = jax.vmap(lambda key: jax.random.split(key))(derive_keys(start.seed, INIT, start.episodes))
    learner = jax.vmap(init_learner)(keys[:, 0])
    state = TrainState(start, learner, stream.init_stream(setup, learner.model, keys[:, 1]))
    return replace(state, counters=counters.init(setup.train, _metric_names(setup, state), first_seed))


def _metric_names(setup: Setup, state: TrainState) -> list[str]:
    def metrics(state: TrainState) -> dict[str, Array]:
        learner, batch = jax.tree.map(lambda leaf: leaf[0], (state.learner, batch_to_learn(state, play(setup, state))))
        return update.learn(setup, learner, batch, jnp.zeros(()), jax.random.key(0))[1]

    return list(jax.eval_shape(metrics, state))


def play(setup: Setup, state: TrainState) -> Rollout:
    """Make some steps in every environment of every seed."""
    counts = state.counters
    keys = derive_keys(counts.seed, PLAY, counts.env_steps)
    return Rollout(*stream.rollout(setup, state.learner.model, epsilon(setup, counts), state.stream, keys))


def batch_to_learn(state: TrainState, played: Rollout) -> EpisodeBatch:
    """Return a rollout with the memory that it started from."""
    return replace(played.batch, start=state.stream.memory)


def rollout_shapes(setup: Setup, state: TrainState, play: Any) -> Rollout:
    """Return the shapes of what `play`, a program that is not compiled yet, returns; it is traced here and not again."""
    return play.eval_shape(state)


def learn(setup: Setup, state: TrainState, played: Rollout) -> TrainState:
    """Learn from a rollout."""
    counts, config = state.counters, setup.algorithm
    keys = derive_keys(counts.seed, LEARN, counts.env_steps)
    batch = batch_to_learn(state, played)
    learner, metrics = update.map_seeds(partial(update.learn, setup), state.learner, batch, progress(setup, counts), keys)
    made = config.epochs * config.minibatches
    counts = replace(
        counts,
        episodes=counts.episodes + played.ended,
        env_steps=counts.env_steps + setup.train.envs * config.rollout,
        updates=counts.updates + made,
        updates_since_log=counts.updates_since_log + made,
        metrics=jax.tree.map(jnp.add, counts.metrics, metrics),
    )
    return TrainState(counts, learner, played.stream)


def iterate(setup: Setup, state: TrainState) -> TrainState:
    """Run one iteration: `play`, then `learn`."""
    return learn(setup, state, play(setup, state))


def models(state: TrainState) -> Any:
    """Return each seed's averaged model, to evaluate and to save."""
    return state.learner.averaged


def progress(setup: Setup, counts: Counters) -> Float[Array, " seeds"]:
    """Return the fraction of all steps that each seed has made."""
    return jnp.minimum(counts.env_steps / setup.train.steps, 1.0)


def epsilon(setup: Setup, counts: Counters) -> Float[Array, " seeds"]:
    """Return each seed's probability of a random action: annealed linearly from 1 to its final value."""
    finish, fraction = setup.algorithm.epsilon_finish, setup.algorithm.epsilon_fraction
    return jnp.maximum(finish, 1.0 - (1.0 - finish) * progress(setup, counts) / max(fraction, 1e-9))


def scalars(setup: Setup, state: TrainState) -> dict[str, Float[Array, " seeds"]]:
    """Return the numbers of the algorithm that are logged with the metrics."""
    rate = update.learning_rate(setup.algorithm, progress(setup, state.counters))
    win_rate = state.stream.win_rates.mean(axis=-1)
    return {"epsilon": epsilon(setup, state.counters), "learning_rate": rate, "train_win_rate": win_rate}


def rows_per_seed(setup: Setup) -> int:
    """Return the number that devices sharing a seed must divide: rows of a minibatch, or environments where they only play."""
    return setup.train.envs // (setup.algorithm.minibatches if setup.method.shareable else 1)


def required_bytes(setup: Setup, seeds: int, shared_by: int = 1) -> dict[str, int]:
    """Return the bytes that a device needs at least for this many seeds, by the option that they depend on.

    Nothing is compiled. The rollout is whole on each of the devices that share the seeds.
    """
    train, episode = setup.train, episode_bytes(setup.env)
    model = jax.eval_shape(setup.method.init, jax.random.key(0))
    learner = jax.eval_shape(partial(update.init_learner, setup), model)
    stream = 2 * episode.state + (setup.algorithm.rollout + 1) * episode.observation
    return {
        "train.envs or algorithm.rollout": seeds * train.envs * stream,
        "train.eval_episodes": seeds * math.ceil(train.eval_episodes / shared_by) * (episode.state + episode.observation),
        "the size of the networks": seeds * num_bytes(learner),
    }


def compressor(setup: Setup) -> None:
    """Return None: there is no replay buffer to compress."""
