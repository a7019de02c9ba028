"""Our battles and SMAX 3s5z side by side in one process: random available actions, episodes begin anew.

    pip install jaxmarl==0.2.0
    python benchmarks/beside_smax.py 8 128 2048 16384

Prints environment steps a second for each number of environments, and the ratio: with everything observed at every step,
and with nothing worked out but what agents may do. jaxmarl is no dependency of refil.
"""

import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from refil import plugins
from refil.cli.bench import RANDOM_STEPS, play_at_random, seconds

REPEATS = 5


@dataclass(frozen=True, eq=False)
class Unobserved:
    """An environment of which only the available actions are seen."""

    env: Any

    def __post_init__(self) -> None:
        for name in ("tasks", "task_names", "reset", "step"):
            object.__setattr__(self, name, getattr(self.env, name))

    def observe(self, state):
        """What agents may do, and nothing else."""
        return replace(self.env.observe(state), entities=jnp.zeros(()), visible=jnp.zeros(()))


def play_smax(observed: bool, env, envs: int, steps: int, key: jax.Array) -> jax.Array:
    """The same as `play_at_random`, in SMAX's words; it resets by itself."""
    key_reset, key_steps = jax.random.split(key)
    first = jax.vmap(env.reset)(jax.random.split(key_reset, envs))[1]

    def step(states, key):
        key_actions, key_step = jax.random.split(key)
        available = jax.vmap(env.get_avail_actions)(states)
        actions = {}
        for number, agent in enumerate(env.agents):
            chance = jax.random.uniform(jax.random.fold_in(key_actions, number), available[agent].shape)
            actions[agent] = jnp.argmax(jnp.where(available[agent] > 0, chance, -1.0), axis=-1)
        obs, states, rewards, _, _ = jax.vmap(env.step)(jax.random.split(key_step, envs), states, actions)
        seen = sum(each.sum() for each in obs.values()) if observed else 0.0
        return states, seen + rewards[env.agents[0]].sum()

    return jax.lax.scan(step, first, jax.random.split(key_steps, steps))[1].sum()


def rate(play, env, envs: int) -> float:
    """Environment steps a second."""
    compiled = jax.jit(partial(play, env, envs, RANDOM_STEPS)).lower(jax.random.key(0)).compile()
    return envs * RANDOM_STEPS / seconds(partial(compiled, jax.random.key(0)), REPEATS)


def main() -> None:
    """A line for each number of environments."""
    try:
        from jaxmarl.environments.smax import HeuristicEnemySMAX, map_name_to_scenario
    except ImportError as error:
        sys.exit(f"this needs jaxmarl (pip install jaxmarl==0.2.0): {error}")
    smax = HeuristicEnemySMAX(scenario=map_name_to_scenario("3s5z"), use_self_play_reward=False)
    module = plugins.load("refil.envs", "3-8sz")
    ours = module.build(module.Config())
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}")
    for envs in map(int, sys.argv[1:] or ["8", "128"]):
        for observed in (True, False):
            theirs = rate(partial(play_smax, observed), smax, envs)
            mine = rate(play_at_random, ours if observed else Unobserved(ours), envs)
            what = f"{envs:>6} environments, {'all observed' if observed else 'actions only'}"
            print(f"{what}: SMAX {theirs:>12,.0f} steps/s, 3-8sz {mine:>12,.0f}, ratio {mine / theirs:.2f}", flush=True)


if __name__ == "__main__":
    main()
