"""Learning curves: win rate or another metric against environment steps, mean and spread over seeds."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure

from refil import stats
from refil.plots import PlotOptions, _curves, _runs
from refil.plots._runs import Curves
from refil.storage.run_dir import RunDir

POINTS = 201  # points of the grid onto which the curves of all seeds are interpolated
MAX_LISTED = 10  # seeds that a table lists one by one; of more it gives the lowest and the highest
RATES = ("win_rate",)  # metrics that are fractions and shown in percent
UNITS = {
    "win_rate": "win rate (%)",
    "return_mean": "return per episode",
    "length_mean": "length of episodes (steps)",
    "seconds": "training time (s)",
    "peak_bytes": "peak memory (bytes)",
}
DEFAULT = PlotOptions()


def draw(curves: Curves, options: PlotOptions = DEFAULT) -> Figure:
    """Draw a panel for each environment."""
    panels = {env: _seed_curves(members, options) for env, members in _runs.panels(curves).items()}
    counts = [{label: len(seeds) for label, (_, seeds) in drawn.items()} for drawn in panels.values()]
    titles = [f"{env}, {_curves.count_seeds(each.values())}" for env, each in zip(panels, counts, strict=True)]
    texts, order = _curves.legend_labels(counts), list(curves)
    figure, all_axes = _curves.subplots(titles, texts.values(), options, share_y=options.metric in RATES)
    scale, bounds = (100, (0.0, 100.0)) if options.metric in RATES else (1, (-np.inf, np.inf))
    longest = max(steps[-1] for drawn in panels.values() for steps, _ in drawn.values())
    unit, name = (1e6, "million") if longest >= 1e6 else (1e3, "thousand")
    for axes, drawn in zip(all_axes, panels.values(), strict=True):
        for label, (steps, seeds) in drawn.items():
            _curves.draw_curve(axes, steps / unit, scale * seeds, order.index(label), texts[label], bounds)
        axes.set_xlabel(f"environment steps ({name})")
        axes.set_ylabel(UNITS.get(options.metric, options.metric.replace("_", " ")))
    if options.metric in RATES:
        _curves.limit_rates(figure)
    _curves.add_legend(figure, counts)
    return figure


def table(curves: Curves, options: PlotOptions = DEFAULT) -> Iterator[str]:
    """Yield the final value of each curve, and its mean over all steps."""
    envs, name = _runs.panels(curves), options.metric.replace("_", " ")
    yield f"| final {name} ({stats.FINAL_MEANING}) | million steps | by seed | mean | spread | mean over all steps |"
    yield "|---|---:|---|---:|---|---:|"
    for env, members in envs.items():
        for label, runs in members.items():
            yield f"| {label if len(envs) == 1 else f'{label} on {env}'} | {' | '.join(_cells(runs, options.metric))} |"


def seed_curves(runs: Sequence[RunDir], metric: str = DEFAULT.metric, smooth: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return a grid of steps that every seed has reached, and each seed's values interpolated there."""
    points = [np.column_stack([each[:, 0], _smoothed(each[:, 1], smooth)]) for each in _runs.series(runs, metric)]
    grid = np.linspace(0, min(curve[-1, 0] for curve in points), POINTS)
    return grid, np.stack([np.interp(grid, curve[:, 0], curve[:, 1]) for curve in points])


def final_values(runs: Sequence[RunDir], metric: str = DEFAULT.metric) -> np.ndarray:
    """Return the final value of each seed."""
    return np.array([stats.final(points) for points in _runs.series(runs, metric)])


def _seed_curves(members: Curves, options: PlotOptions) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {label: seed_curves(runs, options.metric, options.smooth) for label, runs in members.items()}


def _smoothed(values: np.ndarray, number: int) -> np.ndarray:
    """Return the mean of each value and those before it, `number` in all where there are as many."""
    sums = np.cumsum(np.insert(values, 0, 0.0))
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - number, 0)
    return (sums[last] - sums[first]) / (last - first)


def _cells(runs: Sequence[RunDir], metric: str) -> list[str]:
    show = "{:.0%}".format if metric in RATES else "{:.3g}".format
    ends = sorted({f"{points[-1, 0] / 1e6:.2g}" for points in _runs.series(runs, metric)}, key=float)
    finals = final_values(runs, metric)
    spread = stats.spread(finals, (0.0, 1.0) if metric in RATES else (-np.inf, np.inf))
    between = "" if spread is None else f"{show(spread.low)} to {show(spread.high)} ({spread.name})"
    steps = " to ".join(dict.fromkeys((ends[0], ends[-1])))
    whole = seed_curves(runs, metric)[1].mean()
    seeds = ", ".join(map(show, finals)) if len(finals) <= MAX_LISTED else f"{show(finals.min())} to {show(finals.max())}"
    return [steps, seeds, show(finals.mean()), between, show(whole)]
