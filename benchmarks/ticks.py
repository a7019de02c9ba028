"""Time the simulated ticks of battles, without observations and rewards, on a CPU or a GPU.

    python benchmarks/ticks.py 3-8sz 1 8 128 2048
    taskset -c 0 python benchmarks/ticks.py 3-8sz 512 --part 128    # on one core, at most 128 battles at once

Prints for each number of battles the microseconds of processor time and of wall time that the ticks of one step take.
"""

import argparse
import statistics
import time

import jax
import jax.numpy as jnp

from refil.envs.starcraft.env import StarCraft, run_ticks
from refil.envs.starcraft.sim import state
from refil.training import config

STEPS = 100  # steps per timing
REPEATS = 20


def microseconds(env: StarCraft, battles: int) -> tuple[float, float]:
    """Return the processor time and the wall time of one step, from the median of several timings after one that warms up."""
    keys = jax.random.split(jax.random.key(0), battles)
    numbers = jnp.arange(battles) % len(env.task_names)
    tasks = jax.tree.map(lambda leaf: jnp.asarray(leaf)[numbers], env.tasks)
    states, jitter = jax.vmap(env.reset)(tasks, keys), jax.vmap(env.cooldown_jitter)(keys)
    ticks = jax.vmap(run_ticks(env.game))
    play = jax.jit(lambda first: jax.lax.scan(lambda now, _: (ticks(now, jitter), None), first, length=STEPS)[0])
    compiled = play.lower(states).compile()
    jax.block_until_ready(compiled(states))
    times = []
    for _ in range(REPEATS):
        before = time.process_time(), time.perf_counter()
        jax.block_until_ready(compiled(states))
        times.append((time.process_time() - before[0], time.perf_counter() - before[1]))
    processor, wall = (1e6 * statistics.median(each) / STEPS for each in zip(*times, strict=True))
    return processor, wall


def main() -> None:
    """Print a line for each number of battles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", help="a StarCraft task set or map")
    parser.add_argument("battles", type=int, nargs="+", help="numbers of battles")
    parser.add_argument("--part", type=int, help="battles that a CPU simulates at once (default: as many as stay fast)")
    args = parser.parse_args()
    env = config.default(args.env, "refil").build_env()
    if not isinstance(env, StarCraft):
        parser.error(f"{args.env} is not a StarCraft task set or map")
    if args.part is not None:
        state.MOST_PAIRS = args.part * env.game.num_units**2
    for battles in args.battles:
        processor, wall = microseconds(env, battles)
        print(f"{args.env}, {battles:>6} battles: {processor:>9.0f} us of processor time, {wall:>9.0f} us of wall time")


if __name__ == "__main__":
    main()
