"""Parts that figures share: a curve per label, a band over seeds, a legend."""

import numpy as np
from matplotlib.axes import Axes

from refil import stats
from refil.storage.run_dir import RunDir

Curves = dict[str, list[RunDir]]  # for each label the runs whose seeds form one curve


def draw_curve(axes: Axes, x: np.ndarray, seeds: np.ndarray, label: str) -> None:
    """Draw the mean over seeds and, for several seeds, its 95 % interval."""
    mean, low, high = stats.mean_interval(seeds)
    (line,) = axes.plot(x, mean, label=f"{label} ({len(seeds)} seed{'s' if len(seeds) > 1 else ''})")
    if len(seeds) > 1:
        axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)


def finish_axes(axes: Axes) -> None:
    """Add a grid and a legend."""
    axes.set(ylabel="episodes won (greedy)", ylim=(-0.02, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
