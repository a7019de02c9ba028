"""Measure the speed of each adapter and of the bare environment.

    python benchmarks/adapters.py [--env 3-8sz] [--envs 64] [--steps 50]

Random available actions. It prints a Markdown table of environment steps per second, without compilation.
"""

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np

import refil
from refil.adapters.gymnasium import VectorEnv
from refil.adapters.pettingzoo import ParallelEnv
from refil.adapters.smac import SmacEnv
from refil.environment import Environment
from refil.rollout import random_actions


def bare(env: Environment, envs: int, steps: int) -> Callable[[], int]:
    """Play in all environments in one program, without resets."""

    def play(keys: jax.Array) -> jax.Array:
        state, obs = jax.vmap(env.reset)(keys)

        def step(carry, time):
            state, obs = carry
            now = jax.vmap(lambda key: jax.random.fold_in(key, time))(keys)
            actions = jax.vmap(random_actions)(obs.available, now)
            state, obs, outcome = jax.vmap(env.step)(state, actions, now)
            return (state, obs), outcome.reward.sum()

        return jax.lax.scan(step, (state, obs), jnp.arange(steps))[1].sum()

    program = jax.jit(play)
    keys = jax.random.split(jax.random.key(0), envs)
    return lambda: float(program(keys)) * 0 + envs * steps


def choose(masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sample an available action for each row."""
    return (rng.random(masks.shape) * masks).argmax(axis=-1)


def gymnasium(env: Environment, envs: int, steps: int) -> Callable[[], int]:
    """Play in all environments with NumPy actions."""
    vector, rng = VectorEnv(env, envs), np.random.default_rng(0)

    def run() -> int:
        observations, _ = vector.reset(seed=0)
        for _ in range(steps):
            observations = vector.step(choose(observations["action_mask"], rng))[0]
        return envs * steps

    return run


def pettingzoo(env: Environment, steps: int) -> Callable[[], int]:
    """Play in one environment."""
    parallel, rng = ParallelEnv(env), np.random.default_rng(0)

    def run() -> int:
        observations, _ = parallel.reset(seed=0)
        for _ in range(steps):
            actions = {agent: int(choose(observations[agent]["action_mask"], rng)) for agent in parallel.agents}
            observations = parallel.step(actions)[0]
            if not parallel.agents:
                observations, _ = parallel.reset()
        return steps

    return run


def smac(env: Environment, steps: int) -> Callable[[], int]:
    """Play in one environment."""
    game, rng = SmacEnv(env, seed=0), np.random.default_rng(0)

    def run() -> int:
        game.reset()
        for _ in range(steps):
            if game.step(choose(np.array(game.get_avail_actions()), rng))[1]:
                game.reset()
        return steps

    return run


def jaxmarl(env: Environment, envs: int, steps: int) -> Callable[[], int]:
    """Play in all environments in one program, through JaxMARL's own vectorization."""
    from jaxmarl.wrappers.baselines import CTRolloutManager

    from refil.adapters.jaxmarl import JaxMarlEnv

    manager = CTRolloutManager(JaxMarlEnv(env), batch_size=envs)

    def play(key: jax.Array) -> jax.Array:
        _, state = manager.batch_reset(key)

        def step(state, key):
            masks = manager.get_valid_actions(state)
            actions = {agent: jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf)) for agent, mask in masks.items()}
            _, state, rewards, _, _ = manager.batch_step(key, state, actions)
            return state, rewards["__all__"].sum()

        return jax.lax.scan(step, state, jax.random.split(key, steps))[1].sum()

    program = jax.jit(play)
    return lambda: int(float(program(jax.random.PRNGKey(0))) * 0) + envs * steps


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="3-8sz")
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()
    env = refil.make(args.env)
    runs = {
        f"bare, {args.envs} environments in one program": bare(env, args.envs, args.steps),
        "bare, 1 environment in one program": bare(env, 1, args.steps),
        f"Gymnasium, {args.envs} environments": gymnasium(env, args.envs, args.steps),
        "PettingZoo, 1 environment": pettingzoo(env, args.steps),
        "SMAC, 1 environment": smac(env, args.steps),
    }
    if find_spec("jaxmarl"):
        runs[f"JaxMARL, {args.envs} environments in one program"] = jaxmarl(env, args.envs, args.steps)
    print(f"| {args.env} | steps per second |\n|---|---:|")
    for name, run in runs.items():
        run()  # compiles
        start = time.perf_counter()
        count = run()
        print(f"| {name} | {count / (time.perf_counter() - start):,.0f} |", flush=True)


if __name__ == "__main__":
    main()
