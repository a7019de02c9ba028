"""Every method's own ranking of tasks: the share of episodes won, best task first, mean and 95 % interval over seeds.

`refil evaluate RUN --by-task` plays the tasks.
"""

import numpy as np
from matplotlib.figure import Figure

from refil.plots import _lines
from refil.plots._lines import Lines
from refil.settings import Refused


def draw(lines: Lines) -> Figure:
    """A line for each label. Each seed ranks its own tasks: which ones a method wins may differ from seed to seed."""
    figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
    axes = figure.add_subplot(xlabel="tasks, best first")
    for label, runs in lines.items():
        played = [run.by_task() for run in runs]
        if any(list(tasks) != list(played[0]) for tasks in played):
            raise Refused(f"the runs of {label!r} have played different tasks")
        shares = np.concatenate([np.array(list(tasks.values())).T for tasks in played])
        ranked = -np.sort(-shares, axis=1)
        _lines.draw(axes, np.arange(1, ranked.shape[1] + 1), ranked, label)
    _lines.finish(axes)
    return figure
