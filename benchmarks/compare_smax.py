"""Compare the speed of refil's battles with that of SMAX 3s5z: random available actions, ended episodes restart.

    pip install jaxmarl==0.2.0
    python benchmarks/compare_smax.py 8 128 2048 16384

With --cpu-time it counts the processor time of the process, for a CPU that does other work as well.

Prints environment steps per second for each number of environments, and the ratio: once with all observations computed at
every step, and once with the available actions only. Both run in one process. jaxmarl is not a dependency of refil.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from refil.cli._measure import RANDOM_STEPS, play_random
from refil.training import config
from refil.types import Env, Observation

REPEATS = 5


@dataclass(frozen=True)
class ActionsOnly:
    """An environment whose observations hold the available actions only, so that XLA removes the rest."""

    env: Env

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def observe(self, state: Any) -> Observation:
        """Observe the available actions."""
        return replace(self.env.observe(state), entities=jnp.zeros(()), visible=jnp.zeros(()))


def play_smax(observe: bool, env: Any, envs: int, steps: int, key: jax.Array) -> jax.Array:
    """Do the same as `play_random` in SMAX, which restarts episodes itself."""
    key_reset, key_steps = jax.random.split(key)
    first = jax.vmap(env.reset)(jax.random.split(key_reset, envs))[1]

    def step(states, key):
        key_actions, key_step = jax.random.split(key)
        available = jax.vmap(env.get_avail_actions)(states)
        actions = {}
        for number, agent in enumerate(env.agents):
            priority = jax.random.uniform(jax.random.fold_in(key_actions, number), available[agent].shape)
            actions[agent] = jnp.argmax(jnp.where(available[agent] > 0, priority, -1.0), axis=-1)
        obs, states, rewards, _, _ = jax.vmap(env.step)(jax.random.split(key_step, envs), states, actions)
        observed = sum(each.sum() for each in obs.values()) if observe else 0.0
        return states, observed + rewards[env.agents[0]].sum()

    return jax.lax.scan(step, first, jax.random.split(key_steps, steps))[1].sum()


def steps_per_second(play: Callable[..., jax.Array], env: Any, envs: int, clock: Callable[[], float]) -> float:
    """Return the environment steps per second, from the median of several timings after one call that warms up."""
    key = jax.random.key(0)
    compiled = jax.jit(partial(play, env, envs, RANDOM_STEPS)).lower(key).compile()
    jax.block_until_ready(compiled(key))
    times = []
    for _ in range(REPEATS):
        started = clock()
        jax.block_until_ready(compiled(key))
        times.append(clock() - started)
    return envs * RANDOM_STEPS / statistics.median(times)


def build_smax() -> Any:
    """Build SMAX's battle of 3 Stalkers and 5 Zealots on each side; exit if jaxmarl is not installed."""
    try:
        from jaxmarl.environments.smax import HeuristicEnemySMAX, map_name_to_scenario
    except ImportError as error:
        sys.exit(f"this needs jaxmarl (pip install jaxmarl==0.2.0): {error}")
    return HeuristicEnemySMAX(scenario=map_name_to_scenario("3s5z"), use_self_play_reward=False)


def main() -> None:
    """Print two lines for each number of environments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("envs", type=int, nargs="*", default=[8, 128], help="numbers of environments (default: 8 128)")
    parser.add_argument("--cpu-time", action="store_true", help="count the processor time of this process")
    args = parser.parse_args()
    clock = time.process_time if args.cpu_time else time.perf_counter
    smax = build_smax()
    battles = config.default("3-8sz", "refil").build_env()
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}")
    for envs in args.envs:
        for observe in (True, False):
            theirs = steps_per_second(partial(play_smax, observe), smax, envs, clock)
            ours = steps_per_second(play_random, battles if observe else ActionsOnly(battles), envs, clock)
            case = f"{envs:>6} environments, {'all observations' if observe else 'available actions only'}"
            print(f"{case}: SMAX {theirs:>12,.0f} steps/s, 3-8sz {ours:>12,.0f}, ratio {ours / theirs:.2f}", flush=True)


if __name__ == "__main__":
    main()
