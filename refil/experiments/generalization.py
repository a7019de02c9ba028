"""Generalization: trained on four fifths of the tasks, evaluated on the others and in larger armies; 3 seeds.

REFIL and QMIX (Attention) with the paper's 10M steps, and on-policy REFIL with its own 50M.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refil import methods, stats
from refil.storage import serialization
from refil.storage.run_dir import RunDir
from refil.training import config, transfer
from refil.training.config import RunConfig

LARGER = {"3-8sz": "9-12sz", "3-8MMM": "9-12MMM"}  # armies of 9 to 12 units of the same types
METHODS = ("refil", "qmix_attention", "refil_pqn")
TAGS = 12  # so that networks have inputs and actions for the larger armies
EPISODES = 1000  # greedy episodes per seed and column
COLUMNS = ("train", "held-out", "9 to 12 units")


def runs() -> dict[str, RunConfig]:
    """Return each method on the training tasks of each set; metrics contain little besides evaluations."""
    return {
        f"{methods.label(method)} on {env}": config.default(env, method).with_options(
            {"tasks": "train", "tags": TAGS}, seeds=3, log_every=2_000
        )
        for env in LARGER
        for method in METHODS
    }


def report(done: dict[str, RunDir], out: Path) -> Path:
    """Evaluate all seeds on three sets of tasks and write the win rates as a table."""
    path = out / "generalization.md"
    serialization.write_atomic(path, ("\n".join(_table(done)) + "\n").encode())
    return path


def _table(done: dict[str, RunDir]) -> Iterator[str]:
    yield f"| win rate on tasks | {' | '.join(COLUMNS)} |"
    yield "|---" + "|---" * len(COLUMNS) + "|"
    for label, run in done.items():
        larger = LARGER[run.config.env.name]
        rates = [_win_rates(run, **other) for other in ({"tasks": "train"}, {"tasks": "held-out"}, {"name": larger})]
        yield f"| {label} | {' | '.join(map(_cell, rates))} |"
    yield ""
    yield f"Means of the seeds' saved models, {EPISODES:,} greedy episodes each, and their spread."


def _cell(rates: Any) -> str:
    spread = stats.spread(rates, (0.0, 1.0))
    return f"{rates.mean():.0%}" + (f" ({spread.low:.0%} to {spread.high:.0%}, {spread.name})" if spread else "")


def _win_rates(run: RunDir, **other: Any) -> Any:
    import jax
    import numpy as np

    from refil.training import devices, evaluation

    setup = run.config.build()
    env = transfer.build_env(run.config, **other)
    models = run.load_models(jax.eval_shape(setup.method.init, jax.random.key(0)))
    keys = jax.random.split(jax.random.key(0), len(run.seeds))
    play = devices.jit(lambda models, keys: evaluation.evaluate(env, models, EPISODES, keys))
    return np.asarray(play(models, keys).win_rate)
