"""How long an update with its share of play takes while the teams of a run go on playing and learning.

    python benchmarks/trained.py RUN
    python benchmarks/trained.py RUN --fold 0.46 0.55 0.62 --precision bf16 --envs 128 --rounds 12

Begins with the run's models, an empty replay and the epsilon of the end of training. How far batches are folded depends
on how long battles last, so that teams which have learned cost more or less than teams which act at random (`refil bench`).
The first rounds are not counted.
"""

import argparse
import statistics
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

from refil.settings import LARGEST
from refil.storage import run_dir
from refil.training import config, devices
from refil.training.replay import loop
from refil.training.replay.loop import TrainState
from refil.training.setup import Loop
from refil.types import Model

NOT_COUNTED = 4  # rounds: until replay holds several, and everything has been called
ROUNDS_KEPT = 10  # in replay


def main() -> None:
    """Measure, and print."""
    given = arguments()
    run = run_dir.existing(given.run)
    options = run.experiment.options
    buffer = max(ROUNDS_KEPT * given.envs, options.batch)
    size = {"seeds": len(run.seeds), "envs": given.envs, "buffer": buffer, "steps": LARGEST}
    manner = {"precision": given.precision, "fold": options.fold if given.fold is None else tuple(given.fold)}
    asked = replace(run.experiment, options=replace(options, **size, **manner))
    built = asked.build()
    training = having_learned(built, run.load_models(built.method.init(jax.random.key(0))))
    iterate = devices.jit(partial(loop.iterate, built), donate_argnums=0).lower(training).compile()
    rounds = []
    for _ in range(NOT_COUNTED + given.rounds):
        steps, began = int(training.env_steps.sum()), time.perf_counter()
        training = jax.block_until_ready(iterate(training))
        rounds.append((time.perf_counter() - began, int(training.env_steps.sum()) - steps))
    seconds, steps = (statistics.mean(values) for values in zip(*rounds[NOT_COUNTED:], strict=True))
    print(f"{len(run.seeds)} seed(s), {given.envs} environments, {asked.options.precision}, folds {asked.options.fold}")
    print(f"{1e3 * seconds / given.envs:.2f} ms an update of all seeds with its play")
    print(f"{steps / given.envs / len(run.seeds):.1f} steps an episode")
    print(f"{1e7 * len(run.seeds) / (steps / seconds) / 60:.1f} minutes for 10M steps of each seed, without evaluations")


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--fold", type=float, nargs="*", help="shares of a batch's instants, or none; by default the run's")
    parser.add_argument("--precision", choices=list(config.PRODUCTS), default="bf16")
    parser.add_argument("--envs", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=12)
    return parser.parse_args()


def having_learned(built: Loop, models: Model) -> TrainState:
    """The start of training, but with these networks, and as little exploring as in the end."""
    training = jax.jit(partial(loop.begin, built))()
    rows = jax.vmap(training.learner.layout.row)(jax.tree.map(jnp.asarray, models))
    learner = replace(training.learner, parameters=rows, target_parameters=rows.copy())
    return replace(training, learner=learner, env_steps=jnp.full_like(training.env_steps, built.schedule.epsilon_steps))


if __name__ == "__main__":
    main()
