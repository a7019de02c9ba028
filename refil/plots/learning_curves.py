"""Learning curves: the share of episodes won against environment steps, mean and 95 % interval over seeds."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from refil import stats
from refil.errors import RefilError
from refil.plots import _lines
from refil.plots._lines import Lines
from refil.storage.run_dir import Run

POINTS = 201  # of the grid that all seeds' curves are read on
LAST = 0.9  # of the steps that all seeds have made: the end begins here


def draw(lines: Lines) -> Figure:
    """All lines in one figure."""
    figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
    draw_on(figure.add_subplot(), lines)
    return figure


def table(lines: Lines) -> Iterator[str]:
    """Of every line what was won in the last tenth of its steps and over all of them."""
    yield "| episodes won | million steps | at the end, by seed | mean | 95 % interval | over the whole run |"
    yield "|---|---:|---|---:|---:|---:|"
    for label, runs in lines.items():
        steps, curves = seed_curves(runs)
        ends = curves[:, steps >= LAST * steps[-1]].mean(axis=1)
        mean, low, high = stats.mean_interval(ends)
        by_seed = ", ".join(f"{end:.0%}" for end in ends)
        yield f"| {label} | {steps[-1] / 1e6:.2g} | {by_seed} | {mean:.0%} | {low:.0%} to {high:.0%} | {curves.mean():.0%} |"


def draw_beside(panels: dict[str, Lines]) -> Figure:
    """Several such pictures side by side, each under its title."""
    figure = Figure(figsize=(4.4 * len(panels), 3.8), dpi=150, layout="constrained")
    for axes, (title, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        draw_on(axes, lines)
        axes.set_title(title)
    return figure


def draw_on(axes: Axes, lines: Lines) -> None:
    """These lines and their intervals."""
    for label, runs in lines.items():
        _lines.draw(axes, *seed_curves(runs), label)
    axes.set_xlabel("environment steps")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k")
    _lines.finish(axes)


def seed_curves(runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
    """A grid of steps that every seed has reached, and each seed's win rate there, by straight lines in between."""
    points = [np.array(curve, float) for run in runs for curve in evaluations(run).values()]
    grid = np.linspace(0, min(curve[-1, 0] for curve in points), POINTS)
    return grid, np.stack([np.interp(grid, curve[:, 0], curve[:, 1]) for curve in points])


def evaluations(run: Run) -> dict[int, list[tuple[int, float]]]:
    """Of each seed the steps it had made and its win rate."""
    by_seed: dict[int, list[tuple[int, float]]] = {}
    for line in run.metrics():
        if "win_rate" in line:
            by_seed.setdefault(line["seed"], []).append((line["env_steps"], line["win_rate"]))
    if not by_seed:
        raise RefilError(f"{run.path} has no evaluation yet")
    return by_seed
