"""Learning curves: win rate against environment steps, mean and 95 % interval over seeds."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from refil import stats
from refil.errors import RefilError
from refil.plots import _curves
from refil.plots._curves import Curves
from refil.storage.run_dir import RunDir

POINTS = 201  # points of the grid onto which the curves of all seeds are interpolated
END = 0.9  # fraction of the steps after which a run counts as near its end


def draw(curves: Curves) -> Figure:
    """Draw all curves into one figure."""
    figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
    _draw_axes(figure.add_subplot(), curves)
    return figure


def draw_panels(panels: dict[str, Curves]) -> Figure:
    """Draw several panels next to each other, each with its title."""
    figure = Figure(figsize=(4.4 * len(panels), 3.8), dpi=150, layout="constrained")
    for axes, (title, curves) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        _draw_axes(axes, curves)
        axes.set_title(title)
    return figure


def table(curves: Curves) -> Iterator[str]:
    """Yield the win rates over the last tenth of the steps and over the whole run."""
    yield "| episodes won | million steps | at the end, by seed | mean | 95 % interval | over the whole run |"
    yield "|---|---:|---|---:|---:|---:|"
    for label, runs in curves.items():
        steps, by_seed = seed_curves(runs)
        ends = by_seed[:, steps >= END * steps[-1]].mean(axis=1)
        mean, low, high = stats.mean_interval(ends)
        cells = ", ".join(f"{end:.0%}" for end in ends)
        yield f"| {label} | {steps[-1] / 1e6:.2g} | {cells} | {mean:.0%} | {low:.0%} to {high:.0%} | {by_seed.mean():.0%} |"


def seed_curves(runs: Sequence[RunDir]) -> tuple[np.ndarray, np.ndarray]:
    """Return a grid of steps that every seed has reached, and each seed's win rate interpolated there."""
    points = [np.array(curve, float) for run in runs for curve in _evaluations(run).values()]
    grid = np.linspace(0, min(curve[-1, 0] for curve in points), POINTS)
    return grid, np.stack([np.interp(grid, curve[:, 0], curve[:, 1]) for curve in points])


def _draw_axes(axes: Axes, curves: Curves) -> None:
    for label, runs in curves.items():
        _curves.draw_curve(axes, *seed_curves(runs), label)
    axes.set_xlabel("environment steps")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k")
    _curves.finish_axes(axes)


def _evaluations(run: RunDir) -> dict[int, list[tuple[int, float]]]:
    by_seed: dict[int, list[tuple[int, float]]] = {}
    for line in run.metrics():
        if "win_rate" in line:
            by_seed.setdefault(line["seed"], []).append((line["env_steps"], line["win_rate"]))
    if not by_seed:
        raise RefilError(f"{run.path} has no evaluation yet")
    return by_seed
