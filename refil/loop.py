"""The training loop on the device: play, store, sample, update, for all seeds at once, without a word to Python.

Everything a seed does follows from its own state and its seed number, never from the other seeds or from chance outside:
a seed alone does what it does in company, and a saved state goes on as if nothing had happened.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from refil import act, collect, fold, learn, replay
from refil.fold import Places
from refil.learn import Learner
from refil.replay import Replay
from refil.settings import Amount, Count, Refused, Share, Whole
from refil.types import Defaults, Env, Method, Recording

INITIAL, PLAY, LEARN, EVALUATE = range(4)  # what a seed's keys are for


@dataclass(frozen=True)
class Schedule:
    """How much is played and learned, and when; the defaults are the paper's."""

    steps: Count = Defaults.steps  # environment steps to train for, each seed
    seeds: Count = 1  # how many seeds to train at once
    seed: Whole = 0  # the first of them
    envs: Count = 8  # episodes played at once; as many updates follow
    batch: Count = 32  # episodes an update learns from
    buffer: Count = Defaults.buffer  # episodes kept to learn from
    lr: Amount = 5e-4  # learning rate
    max_norm: Amount = 10.0  # largest norm of a gradient
    target_every: Count = 200  # episodes between copies of the target networks
    epsilon_finish: Share = 0.05  # share of random actions in the end (1 at first)
    epsilon_steps: Count = Defaults.epsilon_steps  # environment steps until then
    eval_every: Count = Defaults.eval_every  # environment steps between evaluations
    eval_episodes: Count = Defaults.eval_episodes  # greedy episodes in an evaluation
    log_every: Count = 200  # episodes between lines of metrics
    mask_dead: bool = False  # treat dead entities as absent


class Training(eqx.Module):
    """All that training has come to; every leaf has the seeds as its first axis.

    `reported` is the number of episodes at a seed's last line of metrics; the losses since then are being gathered.
    """

    seed: Int[Array, " seeds"]
    learner: Learner
    replay: Replay
    episodes: Int[Array, " seeds"]
    env_steps: Int[Array, " seeds"]
    next_eval: Int[Array, " seeds"]
    reported: Int[Array, " seeds"]
    loss_sum: Float[Array, " seeds"]
    loss_count: Int[Array, " seeds"]


class Loop(NamedTuple):
    """A method learning an environment on a schedule."""

    env: Env
    method: Method
    schedule: Schedule

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """The paper's."""
        return learn.rmsprop(self.schedule.lr, self.schedule.max_norm)


def check(schedule: Schedule, horizon: int) -> None:
    """Refuse schedules that cannot be."""
    if schedule.steps < horizon:
        raise Refused(f"--steps {schedule.steps} is less than one episode ({horizon} steps)")
    for name in ("batch", "envs"):
        if getattr(schedule, name) > schedule.buffer:
            raise Refused(f"--{name} {getattr(schedule, name)} is more than --buffer {schedule.buffer}")


def keys_for(seeds: Int[Array, " seeds"], purpose: int, moments: Int[Array, " seeds"]) -> Key[Array, " seeds"]:
    """A key of its own for each seed, purpose and moment."""
    return jax.vmap(lambda seed, moment: jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), purpose), moment))(
        seeds, moments
    )


def begin(loop: Loop) -> Training:
    """Every seed at its start."""
    schedule = loop.schedule
    seeds = schedule.seed + jnp.arange(schedule.seeds, dtype=jnp.int32)
    zero = jnp.zeros_like(seeds)
    learner = jax.vmap(partial(learn.begin, loop.method, loop.optimiser))(keys_for(seeds, INITIAL, zero))
    played = jax.eval_shape(partial(play, loop), learner, keys_for(seeds, PLAY, zero), jnp.ones(seeds.shape))
    ring = jax.tree.map(lambda leaf: jnp.zeros((schedule.seeds, schedule.buffer, *leaf.shape[2:]), leaf.dtype), played)
    return Training(
        seed=seeds,
        learner=learner,
        replay=Replay(ring, zero),
        episodes=zero,
        env_steps=zero,
        next_eval=zero,
        reported=zero,
        loss_sum=jnp.zeros(seeds.shape),
        loss_count=zero,
    )


def advance(loop: Loop, training: Training, iterations: Int[Array, ""]) -> Training:
    """At most so many iterations; fewer if a seed has something to report."""

    def going_on(progress: tuple[Array, Training]) -> Bool[Array, ""]:
        return (progress[0] < iterations) & ~line_due(loop, progress[1]).any()

    def one_more(progress: tuple[Array, Training]) -> tuple[Array, Training]:
        return progress[0] + 1, iterate(loop, progress[1])

    return jax.lax.while_loop(going_on, one_more, (jnp.zeros((), jnp.int32), training))[1]


def iterate(loop: Loop, training: Training) -> Training:
    """Each seed plays a batch of episodes and learns as many times; seeds that have done their steps stand still."""
    schedule = loop.schedule
    running = training.env_steps < schedule.steps
    keys = keys_for(training.seed, PLAY, training.episodes)
    recordings = play(loop, training.learner, keys, epsilon(schedule, training))
    ring = jax.vmap(replay.insert)(training.replay, recordings, running)
    ready = running & (ring.inserted >= schedule.batch)
    learner, losses = jax.lax.cond(
        ready.any(),
        partial(improve, loop),
        lambda training, ring, ready: (training.learner, jnp.zeros(ready.shape)),
        *(training, ring, ready),
    )
    return Training(
        seed=training.seed,
        learner=learner,
        replay=ring,
        episodes=training.episodes + jnp.where(running, schedule.envs, 0),
        env_steps=training.env_steps + jnp.where(running, recordings.valid.sum(axis=(1, 2)), 0),
        next_eval=training.next_eval,
        reported=training.reported,
        loss_sum=training.loss_sum + losses,
        loss_count=training.loss_count + jnp.where(ready, schedule.envs, 0),
    )


def epsilon(schedule: Schedule, training: Training) -> Float[Array, " seeds"]:
    """Each seed's share of random actions."""
    return act.epsilon_at(training.env_steps, schedule.epsilon_finish, schedule.epsilon_steps)


def play(loop: Loop, learner: Learner, keys: Key[Array, " seeds"], epsilon: Float[Array, " seeds"]) -> Recording:
    """A batch of episodes for each seed."""
    return collect.random_tasks(loop.env, learner.model, loop.schedule.envs, epsilon, keys)


def improve(
    loop: Loop, training: Training, ring: Replay, ready: Bool[Array, " seeds"]
) -> tuple[Learner, Float[Array, " seeds"]]:
    """One update for each episode just played, and the sum of their losses; seeds that are not ready keep what they have.

    How few rows a seed's batches can be folded onto differs as widely as what seeds have learned. So seeds learn in groups
    of about equal need, and a group in which no seed is ready costs nothing.
    """
    schedule = loop.schedule
    keys = keys_for(training.seed, LEARN, training.episodes)
    keys = jax.vmap(lambda key: jax.random.split(key, (schedule.envs, 2)))(keys)
    draw = jax.vmap(jax.vmap(replay.draw, in_axes=(None, None, 0)), in_axes=(0, None, 0))
    batches = jax.vmap(jax.vmap(replay.take, in_axes=(None, 0)))(ring, draw(ring, schedule.batch, keys[:, :, 0]))

    sizes = fold.sizes(schedule.batch)
    folds = [jax.vmap(jax.vmap(partial(fold.arrange, rows=rows)))(batches.valid) for rows in sizes if rows < schedule.batch]
    fitting = jnp.stack([*(fits.all(axis=1) for _, fits in folds), jnp.ones_like(ready)])
    choice = jnp.where(ready, 1 + jnp.argmax(fitting, axis=0), 0)  # 0: nothing to learn
    order = jnp.argsort(choice)
    branches = [idle, *(partial(learn_folded, loop, number) for number in range(len(sizes)))]

    def learn_group(group: PyTree) -> tuple[Learner, Array]:
        return jax.lax.switch(group[0].max(), branches, *group[1:])

    places = *(places for places, _ in folds), None  # the last has all episodes as they are
    seeds = choice, training.learner, batches, places, training.episodes, keys[:, :, 1], ready
    size = group_size(schedule.seeds)
    groups = jax.tree.map(lambda leaf: leaf[order].reshape(-1, size, *leaf.shape[1:]), seeds)
    learned = jax.lax.map(learn_group, groups)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[jnp.argsort(order)], learned)


def group_size(seeds: int) -> int:
    """How many seeds learn side by side: on a CPU one, where products with a seed axis are slower; else at most 8."""
    if jax.default_backend() == "cpu":
        return 1
    return max(size for size in range(1, 9) if seeds % size == 0)


def idle(
    learner: Learner, batches: Recording, places: PyTree, episodes: Array, keys: Key[Array, "seeds updates"], ready: Array
) -> tuple[Learner, Array]:
    """No update."""
    return learner, jnp.zeros(ready.shape)


def learn_folded(
    loop: Loop,
    number: int,
    learner: Learner,
    batches: Recording,
    places: tuple[Places | None, ...],
    episodes: Int[Array, " seeds"],
    keys: Key[Array, "seeds updates"],
    ready: Bool[Array, " seeds"],
) -> tuple[Learner, Float[Array, " seeds"]]:
    """A group of seeds learns from each of its batches in turn, folded the way that this number says."""

    def update(
        learner: Learner, batch: Recording, places: Places | None, episodes: Array, key: PRNGKeyArray
    ) -> tuple[Learner, Array]:
        learner, metrics = learn.update(loop.method, loop.optimiser, learner, collect.recall(loop.env, batch, places), key)
        return learn.copy_target(learner, episodes, loop.schedule.target_every), metrics["loss"]

    def step(learner: Learner, now: tuple[Recording, Places | None, Array, Array]) -> tuple[Learner, Array]:
        batch, places, keys, number = now
        over_seeds = for_one if len(ready) == 1 else jax.vmap
        learned, losses = over_seeds(update)(learner, batch, places, episodes + number, keys)
        return jax.tree.map(partial(collect.keep, ready), learned, learner), jnp.where(ready, losses, 0.0)

    in_turn = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), (batches, places[number], keys))
    learner, losses = jax.lax.scan(step, learner, (*in_turn, jnp.arange(loop.schedule.envs)))
    return learner, losses.sum(axis=0)


def for_one(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """What vmap does, for an axis of length one: a batched product with one in the batch costs more than a plain one."""

    def applied(*arguments: PyTree) -> PyTree:
        result = function(*jax.tree.map(lambda leaf: leaf[0], arguments))
        return jax.tree.map(lambda leaf: leaf[None], result)

    return applied


def line_due(loop: Loop, training: Training) -> Bool[Array, " seeds"]:
    """Which seeds have a line of metrics to write."""
    every = loop.schedule.log_every
    passed = training.episodes // every > training.reported // every
    return (training.episodes > training.reported) & (passed | eval_due(loop, training))


def eval_due(loop: Loop, training: Training) -> Bool[Array, " seeds"]:
    """Which seeds are to be evaluated: every so many steps, the first time at once, and at the end."""
    finished = training.env_steps >= loop.schedule.steps
    return (training.episodes > training.reported) & (finished | (training.env_steps >= training.next_eval))


def report(loop: Loop, training: Training) -> Training:
    """Take note that every line due has been written."""
    written, again = line_due(loop, training), training.env_steps >= training.next_eval
    return eqx.tree_at(
        lambda t: (t.next_eval, t.reported, t.loss_sum, t.loss_count),
        training,
        (
            jnp.where(written & again, training.env_steps + loop.schedule.eval_every, training.next_eval),
            jnp.where(written, training.episodes, training.reported),
            jnp.where(written, 0.0, training.loss_sum),
            jnp.where(written, 0, training.loss_count),
        ),
    )
