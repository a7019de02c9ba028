"""Every method's own ranking of tasks: the share of episodes won, best task first, mean and 95 % interval over seeds.

`refil evaluate RUN --by-task` plays the tasks.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from refil import statistics
from refil.runs import Run


def draw(runs: Sequence[Run], labels: Sequence[str]) -> Figure:
    """A line for each run. Seeds are ranked each by itself, as a method that does well on other tasks every time does well."""
    figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
    axes = figure.add_subplot(xlabel="tasks, best first", ylabel="episodes won (greedy)", ylim=(-0.02, 1.02))
    for run, label in zip(runs, labels, strict=True):
        ranked = -np.sort(-np.array(list(run.by_task().values())).T, axis=1)
        mean, low, high = statistics.mean_interval(ranked)
        places = np.arange(1, ranked.shape[1] + 1)
        (line,) = axes.plot(places, mean, label=f"{label} ({len(ranked)} seed{'s' if len(ranked) > 1 else ''})")
        if len(ranked) > 1:
            axes.fill_between(places, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure
