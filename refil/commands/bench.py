"""Measure how fast an environment is played and a method learns on this machine."""

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from jaxtyping import Array, Float, PRNGKeyArray

from refil import collect
from refil.commands import train
from refil.experiment import Experiment, Options
from refil.settings import Count, from_command_line
from refil.types import Env

RANDOM_STEPS = 100  # in one timing of an environment alone

HELP = """Measure how fast an environment is played and a method learns on this machine, with an untrained policy.

    refil bench [ENV] [--method NAME] [options]

env_steps_per_s: environment steps played a second, the choice of actions included.

ms_per_update: milliseconds that an update takes, for each seed.

train_steps_per_s: environment steps a second of the whole training loop, all seeds together.

compile_s: seconds until that loop is compiled.

replay_bytes: the memory that all seeds' episodes take.

With --random the environment alone is measured: random available actions, everything seen at every step, and an episode
that ends begins anew.

Shown below are the options and defaults of {env} with {method}."""


@dataclass(frozen=True)
class Measure(Options):
    """Options of a run, and how to measure it."""

    json: bool = False  # print one JSON object
    repeats: Count = 5  # how often each thing is timed; the median counts
    random: bool = False  # measure the environment alone, with random actions


def main(arguments: list[str]) -> None:
    """Print the figures."""
    words, rest = train.split(arguments)
    base = train.default(words)
    measure = Measure(**vars(base.options))
    text = HELP.format(env=base.env, method=base.method)
    measure = from_command_line(Measure, rest, "refil bench", text, measure)
    figures = (bench_random if measure.random else bench)(replace(base, options=measure), measure.repeats)
    if measure.json:
        print(json.dumps(figures))
        return
    who = "random actions" if measure.random else base.method
    print(f"{who} on {base.env}; {figures['device']}; {measure.envs} environments, {measure.seeds} seed(s)")
    for name, value in figures.items():
        if name not in ("device", "envs", "seeds"):
            print(f"  {name:<18} {value:>14,.1f}")


def bench(asked: Experiment, repeats: int) -> dict[str, Any]:
    """The figures, medians of several timings; everything is warmed up first."""
    import jax
    import jax.numpy as jnp

    from refil import loop, schedule

    asked.prepare_device()
    built, options = asked.build(), asked.options
    training = jax.jit(partial(loop.begin, built))()
    replay_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(training.replay))
    iterate = jax.jit(partial(loop.iterate, built), donate_argnums=0)
    started = time.perf_counter()
    compiled = iterate.lower(training).compile()
    compile_s = time.perf_counter() - started
    while int(training.episodes[0]) < options.batch:  # until there is enough to learn from
        training = compiled(training)

    state = [training]

    def iteration() -> Any:
        state[0] = compiled(state[0])
        return state[0].env_steps

    before = iteration().sum()
    whole = seconds(iteration, repeats)
    steps = int(state[0].env_steps.sum() - before) / (repeats + 1)

    keys = schedule.keys_for(state[0].seed, schedule.PLAY, state[0].episodes)
    play = jax.jit(partial(loop.play, built))
    random = partial(play, state[0].learner, keys, jnp.ones(options.seeds))
    now, improve = state[0], jax.jit(partial(loop.improve, built))
    ready = jnp.ones(options.seeds, bool)
    learning = partial(improve, now.seed, now.learner, now.metrics, now.replay, now.episodes, ready)
    return {
        "env_steps_per_s": int(random().valid.sum()) / seconds(random, repeats),
        "ms_per_update": 1e3 * seconds(learning, repeats) / options.envs / options.seeds,
        "train_steps_per_s": steps / whole,
        "compile_s": compile_s,
        "replay_bytes": replay_bytes,
        "device": jax.devices()[0].device_kind,
        "envs": options.envs,
        "seeds": options.seeds,
    }


def bench_random(asked: Experiment, repeats: int) -> dict[str, Any]:
    """How fast the environment is with random available actions."""
    import jax

    asked.prepare_device()
    env, envs = asked.build_env(), asked.options.envs
    rollout = jax.jit(partial(play_at_random, env, envs, RANDOM_STEPS))
    started = time.perf_counter()
    compiled = rollout.lower(jax.random.key(0)).compile()
    compile_s = time.perf_counter() - started
    return {
        "env_steps_per_s": envs * RANDOM_STEPS / seconds(partial(compiled, jax.random.key(0)), repeats),
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
    rows = jax.tree.map(lambda leaf: leaf[tasks], env.tasks)
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
