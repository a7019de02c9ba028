"""REFIL on the three StarCraft task sets for the paper's 10M steps, one seed each."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from refil.experiments.figure_4 import TASK_SETS
from refil.storage import serialization
from refil.storage.run_dir import RunDir
from refil.training import config
from refil.training.config import RunConfig

COLUMNS = 10  # columns of the table, evenly spaced over all steps
WINDOW = 0.02  # fraction of all steps over which the win rate before each column's step is averaged


def runs() -> dict[str, RunConfig]:
    """Return a run for each task set; metrics contain little besides evaluations."""
    return {f"REFIL on {env}": config.default(env, "refil").with_options(log_every=2_000) for env in TASK_SETS}


def report(done: dict[str, RunDir], out: Path) -> Path:
    """Draw the learning curves, and write a table of the win rate along the way."""
    from refil.plots import learning_curves

    path = out / "ten_million.png"
    serialization.save_figure(learning_curves.draw({label: [run] for label, run in done.items()}), path)
    serialization.write_atomic(out / "ten_million.md", ("\n".join(_table(done)) + "\n").encode())
    return path


def _table(done: dict[str, RunDir]) -> Iterator[str]:
    from refil.plots import learning_curves

    for number, (label, run) in enumerate(done.items()):
        steps, curves = learning_curves.seed_curves([run])
        ends = np.linspace(0, steps[-1], COLUMNS + 1)[1:]
        if not number:
            yield f"| million steps | {' | '.join(f'{end / 1e6:.2g}' for end in ends)} |"
            yield f"|---|{'---|' * COLUMNS}"
        rates = [curves[:, (steps > end - WINDOW * steps[-1]) & (steps <= end)].mean() for end in ends]
        yield f"| {label} | {' | '.join(f'{rate:.0%}' for rate in rates)} |"
