"""What figures of several runs have in common: a line for each label, a band over seeds, a legend."""

import numpy as np
from matplotlib.axes import Axes

from refil import stats
from refil.storage.run_dir import Run

Lines = dict[str, list[Run]]  # by label the runs whose seeds make up a line


def draw(axes: Axes, places: np.ndarray, seeds: np.ndarray, label: str) -> None:
    """The mean over seeds and, where there are several, its 95 % interval."""
    mean, low, high = stats.mean_interval(seeds)
    (line,) = axes.plot(places, mean, label=f"{label} ({len(seeds)} seed{'s' if len(seeds) > 1 else ''})")
    if len(seeds) > 1:
        axes.fill_between(places, low, high, color=line.get_color(), alpha=0.2, linewidth=0)


def finish(axes: Axes) -> None:
    """A grid and a legend."""
    axes.set(ylabel="episodes won (greedy)", ylim=(-0.02, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
