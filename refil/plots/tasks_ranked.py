"""Tasks ranked: win rate on each task, best task first for each method, mean and 95 % interval over seeds.

`refil evaluate RUN --by-task` plays the tasks.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure

from refil.errors import RefilError
from refil.plots import _curves
from refil.plots._curves import Curves
from refil.storage.run_dir import RunDir


def draw(curves: Curves) -> Figure:
    """Draw one curve per label."""
    figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
    axes = figure.add_subplot(xlabel="tasks, best first")
    for label, runs in curves.items():
        rates = _ranked(runs, label)
        _curves.draw_curve(axes, np.arange(1, rates.shape[1] + 1), rates, label)
    _curves.finish_axes(axes)
    return figure


def table(curves: Curves) -> Iterator[str]:
    """Yield the win rates on the best and the median task, and the number of tasks above half of the best."""
    yield "| episodes won | on the best task | on the middle one | tasks with at least half of the best |"
    yield "|---|---:|---:|---:|"
    for label, runs in curves.items():
        mean = _ranked(runs, label).mean(axis=0)
        count = f"{(mean >= mean[0] / 2).sum()} of {len(mean)}"
        yield f"| {label} | {mean[0]:.0%} | {mean[len(mean) // 2]:.0%} | {count} |"


def _ranked(runs: Sequence[RunDir], label: str) -> np.ndarray:
    # One order for all seeds: ranking each seed by itself would turn noise into a slope.
    by_task = [run.by_task() for run in runs]
    if any(list(tasks) != list(by_task[0]) for tasks in by_task):
        raise RefilError(f"the runs of {label!r} have different tasks")
    rates = np.concatenate([np.array(list(tasks.values())).T for tasks in by_task])
    return rates[:, np.argsort(-rates.mean(axis=0), kind="stable")]
