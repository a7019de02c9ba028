"""Measure how long an update takes, with its share of play, while the trained teams of a run continue to play and learn.

    python benchmarks/trained.py RUN
    python benchmarks/trained.py RUN --pack 0.46 0.55 0.62 --precision bf16 --envs 128 --iterations 12

Starts with the run's models, an empty replay buffer and the final epsilon. How far batches can be packed depends on the length
of episodes, so that an update of a trained team may cost more or less than that of an untrained one (`refil bench`).
The first iterations are not counted.
"""

import argparse
import statistics
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from refil.settings import MAX_INT
from refil.storage import run_dir
from refil.training import devices, flags
from refil.training.config import RunConfig
from refil.training.replay import loop, update
from refil.training.replay.loop import TrainState
from refil.training.setup import Setup

WARM_UP = 4  # iterations: until the replay buffer holds several rounds of episodes, and every program has run
ROUNDS_STORED = 10  # rounds of episodes that the replay buffer holds


def main() -> None:
    """Measure and print."""
    args = parse_arguments()
    run = run_dir.open_run(args.run)
    config, seeds = measured_config(run.config, len(run.seeds), args), len(run.seeds)
    config.configure()
    setup = config.build()
    models = run.load_models(jax.eval_shape(setup.method.init, jax.random.key(0)))
    state = trained_state(setup, jax.tree.map(jnp.asarray, models))
    timings = time_iterations(setup, state, WARM_UP + args.iterations)[WARM_UP:]
    seconds, steps = (statistics.mean(values) for values in zip(*timings, strict=True))
    print(f"{seeds} seeds, {args.envs} environments, {args.precision}, pack {config.algorithm.pack}")
    print(f"{1e3 * seconds / args.envs:.2f} ms per update of all seeds, with play")
    print(f"{steps / args.envs / seeds:.1f} steps per episode")
    print(f"{1e7 * seeds / (steps / seconds) / 60:.1f} minutes for 10M steps of each seed, without evaluations")


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of the run")
    packs = "sizes of packed batches as fractions of the padded size; without a value: never pack (default: those of the run)"
    parser.add_argument("--pack", type=float, nargs="*", help=packs)
    parser.add_argument("--precision", choices=list(flags.MATMUL_PRECISION), default="bf16", help="default: bf16")
    parser.add_argument("--envs", type=int, default=128, help="environments per seed (default: 128)")
    parser.add_argument("--iterations", type=int, default=12, help="iterations to time (default: 12)")
    return parser.parse_args()


def measured_config(config: RunConfig, seeds: int, args: argparse.Namespace) -> RunConfig:
    """Return the config of a run with the sizes to measure; its steps never end."""
    algorithm = config.algorithm
    return config.with_options(
        seeds=seeds,
        envs=args.envs,
        steps=MAX_INT,
        precision=args.precision,
        buffer=max(ROUNDS_STORED * args.envs, algorithm.batch),
        pack=list(algorithm.pack) if args.pack is None else args.pack,
    )


def trained_state(setup: Setup, models: PyTree) -> TrainState:
    """Return the state before training, but with these models, and with the steps after which epsilon is final."""
    state = jax.jit(partial(loop.init, setup))()
    learner = jax.vmap(lambda model: update.init_learner(setup, model, model))(models)
    env_steps = jnp.full_like(state.counters.env_steps, setup.algorithm.epsilon_steps)
    # Copies, because arrays that share memory cannot all be donated.
    return replace(state, learner=jax.tree.map(jnp.copy, learner), counters=replace(state.counters, env_steps=env_steps))


def time_iterations(setup: Setup, state: TrainState, count: int) -> list[tuple[float, int]]:
    """Return the seconds and the environment steps of all seeds of each iteration; the state is donated."""
    iterate = devices.jit(partial(loop.iterate, setup), donate_argnums=0).lower(state).compile()
    timings = []
    for _ in range(count):
        steps, started = int(state.counters.env_steps.sum()), time.perf_counter()
        state = jax.block_until_ready(iterate(state))
        timings.append((time.perf_counter() - started, int(state.counters.env_steps.sum()) - steps))
    return timings


if __name__ == "__main__":
    main()
