"""Measure how fast an environment is played and a method learns on this machine."""

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jaxtyping import Array, Float, PRNGKeyArray

from refil import rollout as collect
from refil.cli import train
from refil.errors import RefilError
from refil.settings import LARGEST, PositiveInt, from_command_line
from refil.training import devices
from refil.training.config import Experiment, Options
from refil.training.replay.learner import LearnerState
from refil.training.replay.loop import TrainState
from refil.training.setup import Loop
from refil.types import Env, Model

RANDOM_STEPS = 100  # in one timing of an environment alone

HELP = """Measure how fast an environment is played and a method learns on this machine, with an untrained policy.

    refil bench [ENV] [--method NAME] [options]

env_steps_per_s: environment steps played a second, the choice of actions included.

ms_per_update: milliseconds that an update takes, for each seed; and with --parts, of an update by itself whose batch is not
folded, what goes where: ms_to_recall (seeing the batch again), ms_to_value (the loss), ms_to_blame (its gradient),
ms_to_change (the optimiser).

train_steps_per_s: environment steps a second of the whole training loop, all seeds together.

minutes_for_10m: minutes that 10 million steps of each seed would take at that rate, without evaluations; with learning,
episodes change in length.

compile_s: seconds until that loop is traced and compiled; compile_again_s: when JAX's compilation cache has it (kept by itself
on a GPU, elsewhere where JAX_COMPILATION_CACHE_DIR says).

replay_bytes: the memory that all seeds' episodes take; peak_bytes: the most device memory in use, where the device tells.

What only a whole run has (--steps, --log-every, --eval-every, --save-every and the like) makes no difference here.

With --random the environment alone is measured: random available actions, everything seen at every step, and an episode
that ends begins anew.

Shown below are the options and defaults of {env} with {method}."""


@dataclass(frozen=True)
class Measure(Options):
    """Options of a run, and how to measure it."""

    json: bool = False  # print one JSON object
    repeats: PositiveInt = 5  # how often each thing is timed; the median counts
    random: bool = False  # measure the environment alone, with random actions
    parts: bool = False  # time the parts of an update as well, which takes as long again to compile
    profile: Path | None = None  # write a trace of an iteration into this folder, for TensorBoard or Perfetto


def main(arguments: list[str]) -> None:
    """Print the figures."""
    words, rest = train.split(arguments)
    for name in ("resume", "out"):
        if getattr(words, name) is not None:
            raise RefilError(f"--{name} is an option of refil train; refil bench keeps no run")
    base = train.default(words)
    measure = Measure(**vars(base.options))
    text = HELP.format(env=base.env, method=base.method)
    measure = from_command_line(Measure, rest, "refil bench", text, measure)
    measure = replace(measure, steps=LARGEST)  # a seed that has made its steps learns no more
    figures = (bench_random if measure.random else bench)(replace(base, options=measure), measure)
    if measure.json:
        print(json.dumps(figures))
        return
    who = "random actions" if measure.random else base.method
    print(f"{who} on {base.env}; {figures['device']}; {measure.envs} environments, {figures['seeds']} seed(s)")
    for name, value in figures.items():
        if name not in ("device", "envs", "seeds"):
            print(f"  {name:<18} {value:>14,.1f}")


def bench(asked: Experiment, measure: Measure) -> dict[str, Any]:
    """The figures, medians of several timings; everything is warmed up first."""
    import jax
    import jax.numpy as jnp

    from refil.training import setup
    from refil.training.replay import loop, update

    built, options = asked.build(), asked.options
    begin = jax.jit(partial(loop.begin, built)).lower()
    devices.check_room(begin.out_info)
    training = begin.compile()()
    replay_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(training.replay))
    (learn, play), compile_s, compile_again_s = compile_twice(built, training)
    while int(training.episodes[0]) < options.batch:  # until there is enough to learn from
        training = learn(training, play(training))

    state = [training]

    def iteration() -> Any:
        state[0] = learn(state[0], play(state[0]))
        return state[0].env_steps

    before = iteration().sum()
    whole = seconds(iteration, measure.repeats)
    steps = int(state[0].env_steps.sum() - before) / (measure.repeats + 1)
    if measure.profile:
        with jax.profiler.trace(measure.profile):
            jax.block_until_ready(iteration())

    now = state[0]
    keys = setup.derive_keys(now.seed, setup.PLAY, now.episodes)
    random = partial(devices.jit(partial(loop.play, built)), now.learner, keys, jnp.ones(options.seeds))
    ready = jnp.ones(options.seeds, bool)
    learning = partial(
        devices.jit(partial(update.improve, built)), now.seed, now.learner, now.metrics, now.replay, now.episodes, ready
    )
    return {
        "env_steps_per_s": int(random().valid.sum()) / seconds(random, measure.repeats),
        "ms_per_update": 1e3 * seconds(learning, measure.repeats) / options.envs / options.seeds,
        **(time_parts(built, now, measure.repeats) if measure.parts else {}),
        "train_steps_per_s": steps / whole,
        "minutes_for_10m": 1e7 * options.seeds / (steps / whole) / 60,
        "compile_s": compile_s,
        "compile_again_s": compile_again_s,
        "replay_bytes": replay_bytes,
        **devices.peak_bytes(),
        "device": jax.devices()[0].device_kind,
        "envs": options.envs,
        "seeds": options.seeds,
    }


def compile_twice(built: Loop, training: TrainState) -> tuple[list[Callable[..., Any]], float, float]:
    """What learns and what plays, compiled for such a state as training does it; the seconds that took, and the second time."""
    import jax

    from refil.training.replay import loop

    times = []
    with empty_cache():
        for _ in range(2):
            jax.clear_caches()
            started = time.perf_counter()
            learn = devices.jit(partial(loop.learn_from, built), donate_argnums=0)
            play = devices.jit(partial(loop.play_on, built))
            programs = devices.compiled((learn, training, loop.shapes_played(built, training)), (play, training))
            times.append(time.perf_counter() - started)
    return programs, *times


@contextmanager
def empty_cache() -> Iterator[None]:
    """Nothing has been compiled before; what is compiled now is kept until the end."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    usual = jax.config.jax_compilation_cache_dir
    with TemporaryDirectory() as folder:
        for place in (folder, usual):
            compilation_cache.reset_cache()
            jax.config.update("jax_compilation_cache_dir", place)
            if place is folder:
                yield


def time_parts(built: Loop, training: TrainState, repeats: int) -> dict[str, float]:
    """The parts of one seed's update, each timed with all before it, and the differences."""
    import jax

    from refil import rollout as collect
    from refil.training.replay import buffer
    from refil.training.replay import learner as learn

    one = jax.tree.map(lambda leaf: leaf[0], (training.replay, training.learner))
    key = jax.random.key(0)
    batch = jax.jit(lambda ring: buffer.take(ring, buffer.draw(ring, built.schedule.batch, key)))(one[0])

    def recall(learner: LearnerState) -> Any:
        return collect.recall(built.env, batch)

    def value_of(model: Model, learner: LearnerState) -> Any:
        return built.method.loss(*learn.working_in(built.activations, model, learner.target, recall(learner)), key)[0]

    def value(learner: LearnerState) -> Any:
        return value_of(learner.model, learner)

    def blame(learner: LearnerState) -> Any:
        return jax.grad(value_of)(learner.model, learner)

    def change(learner: LearnerState) -> Any:
        return learn.update(built.method, built.optimiser, learner, recall(learner), key, built.activations)[0]

    whole = {"recall": recall, "value": value, "blame": blame, "change": change}
    times = [1e3 * seconds(partial(devices.jit(part), one[1]), repeats) for part in whole.values()]
    before = [0.0, *times[:-1]]
    return {f"ms_to_{name}": end - start for name, start, end in zip(whole, before, times, strict=True)}


def bench_random(asked: Experiment, measure: Measure) -> dict[str, Any]:
    """How fast the environment is with random available actions."""
    import jax

    env, envs = asked.build_env(), asked.options.envs
    rollout = jax.jit(partial(play_at_random, env, envs, RANDOM_STEPS))
    started = time.perf_counter()
    compiled = rollout.lower(jax.random.key(0)).compile()
    compile_s = time.perf_counter() - started
    return {
        "env_steps_per_s": envs * RANDOM_STEPS / seconds(partial(compiled, jax.random.key(0)), measure.repeats),
        "compile_s": compile_s,
        "device": jax.devices()[0].device_kind,
        "envs": envs,
        "seeds": 1,
    }


def play_at_random(env: Env, envs: int, steps: int, key: PRNGKeyArray) -> Float[Array, ""]:
    """So many steps of so many environments; the sum of all that is seen and gained, so that nothing is left out."""
    import jax
    import jax.numpy as jnp

    key_tasks, key_reset, key_steps = jax.random.split(key, 3)
    tasks = jax.random.randint(key_tasks, (envs,), 0, len(env.task_names))
    rows = jax.tree.map(lambda leaf: jnp.asarray(leaf)[tasks], env.tasks)
    first = jax.vmap(env.reset)(rows, jax.random.split(key_reset, envs))

    def step(states: Any, key: PRNGKeyArray) -> tuple[Any, Array]:
        key_actions, key_step = jax.random.split(key)
        obs = jax.vmap(env.observe)(states)
        chance = jax.random.uniform(key_actions, obs.available.shape)
        actions = jnp.argmax(jnp.where(obs.available, chance, -1.0), axis=-1)
        states, outcome = jax.vmap(env.step)(states, actions, jax.random.split(key_step, envs))
        again = partial(collect.keep, outcome.terminated)
        return jax.tree.map(again, first, states), outcome.reward.sum() + obs.entities.sum() + obs.visible.sum()

    return jax.lax.scan(step, first, jax.random.split(key_steps, steps))[1].sum()


def seconds(function: Callable[[], Any], repeats: int) -> float:
    """The median time of a call, after one that does not count."""
    import jax

    jax.block_until_ready(function())
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - started)
    return statistics.median(times)
