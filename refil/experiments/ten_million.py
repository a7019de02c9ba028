"""REFIL on the three StarCraft task sets for the paper's 10M steps, one seed each.

Runs of further seeds join a curve if their folders are next to the run's own and have its name followed by `_seeds_` and
anything: `refil_on_3_8csz_seeds_1_to_4`.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from refil import stats
from refil.experiments import with_more_seeds
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

    path, runs = out / "ten_million.png", [with_more_seeds(run) for run in done.values()]
    serialization.save_figure(learning_curves.draw({"REFIL": [run for each in runs for run in each]}), path)
    table = _table(dict(zip(done, runs, strict=True)))
    serialization.write_atomic(out / "ten_million.md", ("\n".join(table) + "\n").encode())
    return path


def _table(curves: dict[str, list[RunDir]]) -> Iterator[str]:
    from refil.plots import learning_curves

    for number, (label, runs) in enumerate(curves.items()):
        steps, by_seed = learning_curves.seed_curves(runs)
        finals = learning_curves.final_values(runs)
        ends = np.linspace(0, steps[-1], COLUMNS + 1)[1:]
        if not number:
            head = " | ".join(f"{end / 1e6:.2g}" for end in ends)
            yield f"| win rate at million steps | {head} | final ({stats.FINAL_MEANING}) | by seed | spread |"
            yield f"|---|{'---:|' * COLUMNS}---:|---|---|"
        rates = [by_seed[:, (steps > end - WINDOW * steps[-1]) & (steps <= end)].mean() for end in ends]
        spread = stats.spread(finals, (0.0, 1.0))
        cells = [f"{rate:.0%}" for rate in (*rates, finals.mean())] + [", ".join(f"{value:.0%}" for value in finals)]
        cells.append("" if spread is None else f"{spread.low:.0%} to {spread.high:.0%} ({spread.name})")
        yield f"| {label} | {' | '.join(cells)} |"
