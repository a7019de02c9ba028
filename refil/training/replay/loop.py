"""An iteration of training on the device, for all seeds at once: what plays, and what stores, samples and updates.

Everything a seed does follows from its own state and its seed number, never from the other seeds or from chance outside:
a seed alone does what it does in company, and a saved state goes on as if nothing had happened.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from refil import exploration, rollout
from refil.training.replay import buffer
from refil.training.replay import learner as learn
from refil.training.replay.buffer import Replay
from refil.training.replay.learner import LearnerState
from refil.training.replay.update import Metrics, improve
from refil.training.setup import INITIAL, PLAY, Loop, Schedule, derive_keys
from refil.types import Trajectory


class TrainState(eqx.Module):
    """All that training has come to; every leaf has the seeds as its first axis.

    `reported` is the number of episodes at a seed's last line of metrics; `metrics` are sums over the updates since
    then, of which there have been `updates_since`.
    """

    seed: Int[Array, " seeds"]
    learner: LearnerState
    replay: Replay
    episodes: Int[Array, " seeds"]
    env_steps: Int[Array, " seeds"]
    next_eval: Int[Array, " seeds"]
    reported: Int[Array, " seeds"]
    metrics: Metrics
    updates_since: Int[Array, " seeds"]


def begin(loop: Loop) -> TrainState:
    """Every seed at its start."""
    schedule = loop.schedule
    seeds = schedule.seed + jnp.arange(schedule.seeds, dtype=jnp.int32)
    zero = jnp.zeros_like(seeds)
    learner = jax.vmap(partial(learn.begin, loop.method, loop.optimiser))(derive_keys(seeds, INITIAL, zero))
    played = jax.eval_shape(partial(play, loop), learner, derive_keys(seeds, PLAY, zero), jnp.ones(seeds.shape))
    ring = jax.tree.map(lambda leaf: jnp.zeros((schedule.seeds, schedule.buffer, *leaf.shape[2:]), leaf.dtype), played)
    return TrainState(
        seed=seeds,
        learner=learner,
        replay=Replay(ring, zero),
        episodes=zero,
        env_steps=zero,
        next_eval=zero,
        reported=zero,
        metrics={name: jnp.zeros(seeds.shape) for name in metric_names(loop, played)},
        updates_since=zero,
    )


def metric_names(loop: Loop, played: Trajectory) -> list[str]:
    """What an update from episodes like these says of itself."""

    def update_once(trajectories: Trajectory) -> dict[str, Array]:
        key = jax.random.key(0)
        learner = learn.begin(loop.method, loop.optimiser, key)
        return learn.gradient(loop.method, learner, rollout.recall(loop.env, trajectories), key)[1]

    of_one_seed = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), played)
    return list(jax.eval_shape(update_once, of_one_seed))


def iterate(loop: Loop, training: TrainState) -> TrainState:
    """Each seed plays a batch of episodes and learns as many times: both parts in one, where that is easier to call."""
    return learn_from(loop, training, play_on(loop, training))


def play_on(loop: Loop, training: TrainState) -> Trajectory:
    """What each seed plays next: a batch of episodes."""
    keys = derive_keys(training.seed, PLAY, training.episodes)
    return play(loop, training.learner, keys, epsilon(loop.schedule, training))


def shapes_played(loop: Loop, training: TrainState) -> Trajectory:
    """What `play_on` gives is like this; known without going through it."""
    schedule, ring = loop.schedule, training.replay.trajectories
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((schedule.seeds, schedule.envs, *leaf.shape[2:]), leaf.dtype), ring)


def learn_from(loop: Loop, training: TrainState, trajectories: Trajectory) -> TrainState:
    """Each seed stores what it has played, and learns as many times; seeds that have done their steps stand still."""
    schedule = loop.schedule
    running = training.env_steps < schedule.steps
    ring = jax.vmap(buffer.insert)(training.replay, trajectories, running)
    ready = running & (ring.inserted >= schedule.batch)
    learner, metrics = jax.lax.cond(
        ready.any(),
        partial(improve, loop),
        lambda seed, learner, metrics, *rest: (learner, metrics),
        *(training.seed, training.learner, training.metrics, ring, training.episodes, ready),
    )
    return TrainState(
        seed=training.seed,
        learner=learner,
        replay=ring,
        episodes=training.episodes + jnp.where(running, schedule.envs, 0),
        env_steps=training.env_steps + jnp.where(running, trajectories.valid.sum(axis=(1, 2)), 0),
        next_eval=training.next_eval,
        reported=training.reported,
        metrics=metrics,
        updates_since=training.updates_since + jnp.where(ready, schedule.envs, 0),
    )


def epsilon(schedule: Schedule, training: TrainState) -> Float[Array, " seeds"]:
    """Each seed's share of random actions."""
    return exploration.epsilon_at(training.env_steps, schedule.epsilon_finish, schedule.epsilon_steps)


def play(loop: Loop, learner: LearnerState, keys: Key[Array, " seeds"], epsilon: Float[Array, " seeds"]) -> Trajectory:
    """A batch of episodes for each seed."""
    return rollout.random_tasks(loop.env, learner.model, loop.schedule.envs, epsilon, keys)


def line_due(loop: Loop, training: TrainState) -> Bool[Array, " seeds"]:
    """Which seeds have a line of metrics to write."""
    every = loop.schedule.log_every
    passed = training.episodes // every > training.reported // every
    return (training.episodes > training.reported) & (passed | eval_due(loop, training))


def eval_due(loop: Loop, training: TrainState) -> Bool[Array, " seeds"]:
    """Which seeds are to be evaluated: every so many steps, the first time at once, and at the end."""
    finished = training.env_steps >= loop.schedule.steps
    return (training.episodes > training.reported) & (finished | (training.env_steps >= training.next_eval))


def report(loop: Loop, training: TrainState) -> TrainState:
    """Take note that every line due has been written."""
    written, again = line_due(loop, training), training.env_steps >= training.next_eval
    return eqx.tree_at(
        lambda t: (t.next_eval, t.reported, t.metrics, t.updates_since),
        training,
        (
            jnp.where(written & again, training.env_steps + loop.schedule.eval_every, training.next_eval),
            jnp.where(written, training.episodes, training.reported),
            jax.tree.map(lambda each: jnp.where(written, 0.0, each), training.metrics),
            jnp.where(written, 0, training.updates_since),
        ),
    )
