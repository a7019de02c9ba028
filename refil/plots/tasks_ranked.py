"""Every method's own ranking of tasks: the share of episodes won, best task first, mean and 95 % interval over seeds.

`refil evaluate RUN --by-task` plays the tasks.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from refil.plots import _lines
from refil.runs import Run


def draw(runs: Sequence[Run], labels: Sequence[str]) -> Figure:
    """A line for each run. Each seed ranks its own tasks: which ones a method wins may differ from seed to seed."""
    figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
    axes = figure.add_subplot(xlabel="tasks, best first")
    for run, label in zip(runs, labels, strict=True):
        ranked = -np.sort(-np.array(list(run.by_task().values())).T, axis=1)
        _lines.draw(axes, np.arange(1, ranked.shape[1] + 1), ranked, label)
    _lines.finish(axes)
    return figure
