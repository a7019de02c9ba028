"""REFIL on the three StarCraft sets for the paper's 10M steps, one seed each: where it comes to in the end."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from refil.experiments.figure_4 import SETS
from refil.storage import serialization
from refil.storage.run_dir import Run
from refil.training import config
from refil.training.config import Experiment

COLUMNS = 10  # of the table, evenly over all steps
BEFORE = 0.02  # of all steps: what was won just before a column's step is averaged


def planned() -> dict[str, Experiment]:
    """A run for each set; metrics hold little beside the evaluations."""
    return {f"REFIL on {env}": paper(config.default(env, "refil")) for env in SETS}


def paper(default: Experiment) -> Experiment:
    """What the paper ran, with fewer lines of metrics."""
    return replace(default, options=replace(default.options, log_every=2_000))


def conclude(done: dict[str, Run], out: Path) -> Path:
    """The curves, and beside them a table."""
    from refil.plots import learning_curves

    picture = out / "ten_million.png"
    serialization.save_figure(learning_curves.draw({label: [run] for label, run in done.items()}), picture)
    serialization.write_atomic(out / "ten_million.md", ("\n".join(table(done)) + "\n").encode())
    return picture


def table(done: dict[str, Run]) -> Iterator[str]:
    """Of every run what was won on its way."""
    from refil.plots import learning_curves

    for number, (label, run) in enumerate(done.items()):
        steps, curves = learning_curves.seed_curves([run])
        places = np.linspace(0, steps[-1], COLUMNS + 1)[1:]
        if not number:
            yield f"| million steps | {' | '.join(f'{place / 1e6:.2g}' for place in places)} |"
            yield f"|---|{'---|' * COLUMNS}"
        won = [curves[:, (steps > place - BEFORE * steps[-1]) & (steps <= place)].mean() for place in places]
        yield f"| {label} | {' | '.join(f'{share:.0%}' for share in won)} |"
