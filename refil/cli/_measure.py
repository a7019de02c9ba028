"""Timings for `refil bench`: the environment alone, and the training loop with its parts."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.compilation_cache import compilation_cache
from jaxtyping import Array, Float, Key, PRNGKeyArray

from refil.errors import RefilError
from refil.rollout import RolloutState, init_rollout, is_hosted, random_policy, reset_envs, select, step_envs
from refil.storage.progress import Progress
from refil.training import devices, memory
from refil.training.config import RunConfig
from refil.training.counters import Counters
from refil.training.setup import Setup
from refil.types import Env, Observation

RANDOM_STEPS = 100  # steps per timing of an environment alone


def measure_training(config: RunConfig, repeats: int, parts: bool, profile: Path | None, progress: Progress) -> dict[str, Any]:
    """Return medians of several timings of the training loop; all programs are warmed up first."""
    config.configure()
    setup, train, loop = config.build(), config.train, config.algorithm_module()
    _check_compiled(setup.env, config)
    used = devices.devices_for(loop, setup)
    devices.check_device_memory(partial(loop.required_bytes, setup), used)
    progress.phase("compiling the initial state")
    state = used.shard(jax.jit(partial(loop.init, setup))())
    (learn, play), compile_s, compile_cached_s = _compile_twice(loop, setup, used, state, progress)
    progress.phase("playing until there is something to learn from")
    while not int(state.counters.updates.min()):
        state = learn(state, play(state))
    programs = Programs(learn, play, state)
    progress.phase(f"timing {repeats} iterations of training")
    before = programs.iterate().env_steps.sum()
    iteration_s = _seconds(programs.iterate, repeats)
    steps = int(programs.state.counters.env_steps.sum() - before) / (repeats + 1)
    if profile:
        with jax.profiler.trace(profile):
            jax.block_until_ready(programs.iterate())
    progress.phase("timing play and updates")
    times = _time_play_and_updates(programs, repeats)
    if parts:
        progress.phase("timing the parts of an update")
        times |= _time_parts(config.algorithm_module("timing").prefixes(setup, programs.state, play(programs.state)), repeats)
    return {
        **times,
        "train_steps_per_s": steps / iteration_s,
        "minutes_for_10m": 1e7 * train.seeds / (steps / iteration_s) / 60,
        "compile_s": compile_s,
        "compile_cached_s": compile_cached_s,
        "state_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(programs.state)),
        **devices.peak_bytes(),
        "device": jax.devices()[0].device_kind,
        "envs": train.envs,
        "seeds": train.seeds,
    }


def _check_compiled(env: Env, config: RunConfig) -> None:
    if is_hosted(env):
        raise RefilError(
            f"{config.env.name} plays a real game, and only compiled programs are timed; see 'seconds' in metrics.jsonl"
        )


@dataclass
class Programs:
    """The compiled programs of training, and the state that they advance."""

    learn_program: Callable[[Any, Any], Any]
    play_program: Callable[[Any], Any]
    state: Any

    def iterate(self) -> Counters:
        """Play and learn."""
        return self.learn(self.play_program(self.state))

    def learn(self, played: Any) -> Counters:
        """Learn from a rollout, which may be the same one several times."""
        self.state = self.learn_program(self.state, played)
        return self.state.counters


def measure_env(config: RunConfig, repeats: int, progress: Progress) -> dict[str, Any]:
    """Return the speed of the environment alone, with random actions."""
    config.configure()
    env, envs = config.build_env(), config.train.envs
    _check_compiled(env, config)
    memory.check_episodes(env, envs, "train.envs")
    progress.phase("compiling the environment")
    started = time.perf_counter()
    play = jax.jit(partial(play_random, env, envs, RANDOM_STEPS)).lower(jax.random.key(0)).compile()
    compile_s = time.perf_counter() - started
    progress.phase(f"timing {repeats} times {RANDOM_STEPS} steps of {envs} environments")
    return {
        "env_steps_per_s": envs * RANDOM_STEPS / _seconds(partial(play, jax.random.key(0)), repeats),
        "compile_s": compile_s,
        "device": jax.devices()[0].device_kind,
        "envs": envs,
        "seeds": 1,
    }


def play_random(env: Env, envs: int, steps: int, key: PRNGKeyArray) -> Float[Array, ""]:
    """Take random steps, restarting episodes that end; return the sum of observations and rewards.

    Nothing is recorded. The policy's state is a running sum of observations, so that XLA cannot remove their computation.
    The environments are the first of the two batch axes: StarCraft puts that one last in memory, where length 1 would be slow.
    """
    key_tasks, key_reset, key_steps = jax.random.split(key, 3)
    tasks = jax.random.randint(key_tasks, (envs, 1), 0, len(env.task_names))
    first = reset_envs(env, tasks, jax.random.split(key_reset, (envs, 1)))
    keys = jax.random.split(key_steps, (envs, 1))

    def policy(total: Array, obs: Observation, keys: Key[Array, "seeds envs"]) -> tuple[Array, Array]:
        return total + obs.entities.sum() + obs.visible.sum(), random_policy(None, obs, keys)[1]

    def step(state: RolloutState, _: Any) -> tuple[RolloutState, Array]:
        state = replace(state, running=jnp.ones((envs, 1), bool))  # constant, so XLA drops the freezing of ended episodes
        after, _, outcome = step_envs(env, policy, keys, state)
        env_states = jax.tree.map(partial(select, after.running), after.env_states, first)
        return replace(after, env_states=env_states), outcome.reward.sum()

    end, rewards = jax.lax.scan(step, init_rollout(env, jnp.zeros(()), first), length=steps)
    return end.policy_state + rewards.sum()


def _time_play_and_updates(programs: Programs, repeats: int) -> dict[str, float]:
    counts = programs.state.counters
    untrained = replace(programs.state, counters=replace(counts, env_steps=jnp.zeros_like(counts.env_steps)))
    explore = partial(programs.play_program, untrained)  # before the first step, epsilon is 1
    played, play_s = explore(), _seconds(explore, repeats)
    before = jax.device_get(counts)
    learn_s = _seconds(partial(programs.learn, played), repeats)
    after = programs.state.counters
    made = {
        name: int((getattr(after, name) - getattr(before, name)).sum()) / (repeats + 1) for name in ("env_steps", "updates")
    }
    return {"env_steps_per_s": made["env_steps"] / play_s, "ms_per_update": 1e3 * learn_s / made["updates"]}


def _time_parts(prefixes: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Time ever longer prefixes of one seed's update, and return the differences."""
    times = [1e3 * _seconds(prefix, repeats) for prefix in prefixes.values()]
    return {f"ms_{name}": end - start for name, start, end in zip(prefixes, [0.0, *times[:-1]], times, strict=True)}


def _compile_twice(
    loop: Any, setup: Setup, used: devices.Devices, state: Any, progress: Progress
) -> tuple[list[Callable[..., Any]], float, float]:
    """Compile `learn` and `play` as training does; return them, and the seconds without and with the cache."""
    programs, times = [], []
    with _empty_cache():
        for text in ("compiling play and learn", "compiling play and learn again, from the cache"):
            progress.phase(text)
            jax.clear_caches()
            started = time.perf_counter()
            play, learn = used.play_and_learn(setup.env, partial(loop.play, setup), partial(loop.learn, setup))
            played = used.sharded_shapes(loop.rollout_shapes(setup, state, play))
            programs = devices.compile_all((learn, state, played), (play, state))
            times.append(time.perf_counter() - started)
    return programs, *times


@contextmanager
def _empty_cache() -> Iterator[None]:
    usual = jax.config.values["jax_compilation_cache_dir"]
    with TemporaryDirectory() as folder:
        for path in (folder, usual):
            compilation_cache.reset_cache()
            jax.config.update("jax_compilation_cache_dir", path)
            if path is folder:
                yield


def _seconds(function: Callable[[], Any], repeats: int) -> float:
    """Return the median time of a call, after one that warms up."""
    jax.block_until_ready(function())
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - started)
    return statistics.median(times)
