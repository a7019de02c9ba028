"""Every method's own ranking of tasks: the share of episodes won, best task first, mean and 95 % interval over seeds.

`refil evaluate RUN --by-task` plays the tasks.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure

from refil.errors import RefilError
from refil.plots import _lines
from refil.plots._lines import Lines
from refil.storage.run_dir import Run


def draw(lines: Lines) -> Figure:
    """A line for each label."""
    figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
    axes = figure.add_subplot(xlabel="tasks, best first")
    for label, runs in lines.items():
        shares = ranked(runs, label)
        _lines.draw(axes, np.arange(1, shares.shape[1] + 1), shares, label)
    _lines.finish(axes)
    return figure


def table(lines: Lines) -> Iterator[str]:
    """How far each line falls off."""
    yield "| episodes won | on the best task | on the middle one | tasks with at least half of the best |"
    yield "|---|---:|---:|---:|"
    for label, runs in lines.items():
        mean = ranked(runs, label).mean(axis=0)
        count = f"{(mean >= mean[0] / 2).sum()} of {len(mean)}"
        yield f"| {label} | {mean[0]:.0%} | {mean[len(mean) // 2]:.0%} | {count} |"


def ranked(runs: Sequence[Run], label: str) -> np.ndarray:
    """A row for each seed, all with the tasks in the same order: by their mean, so that chance makes less of a slope."""
    played = [run.by_task() for run in runs]
    if any(list(tasks) != list(played[0]) for tasks in played):
        raise RefilError(f"the runs of {label!r} have played different tasks")
    shares = np.concatenate([np.array(list(tasks.values())).T for tasks in played])
    return shares[:, np.argsort(-shares.mean(axis=0), kind="stable")]
