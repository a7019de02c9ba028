"""Learning curves: win rate or another metric against environment steps, mean and spread over seeds."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from refil import stats
from refil.errors import RefilError
from refil.plots import PlotOptions, _curves, _runs
from refil.plots._runs import Curves
from refil.storage.run_dir import RunDir

POINTS = 201  # points of the grid onto which the curves of all seeds are interpolated
FEW_STEPS = 10_000  # tables count the steps of shorter runs one by one, not in millions
MAX_LISTED = 10  # seeds that a table lists one by one; of more it gives the lowest and the highest
EVALUATED = ("win_rate", "return_mean", "length_mean")  # metrics of all greedy episodes of an evaluation
STATISTICS = {"mean": "mean", "median": "median", "iqm": "IQM"}  # functions of refil.stats and their names in tables
RATES = ("win_rate", "train_win_rate")  # metrics that are fractions and shown in percent
UNITS = {
    "win_rate": "win rate (%)",
    "train_win_rate": "win rate in training (%)",
    "return_mean": "return per episode",
    "length_mean": "length of episodes (steps)",
    "won_length_mean": "length of won episodes (steps)",
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
    for axes, drawn in zip(all_axes, panels.values(), strict=True):
        unit, name = _unit(float(max(steps[-1] for steps, _ in drawn.values())))
        for label, (steps, seeds) in drawn.items():
            _curves.draw_curve(axes, steps / unit, scale * seeds, order.index(label), texts[label], bounds)
        if options.level is not None:
            axes.axhline(scale * options.level, color="gray", linewidth=0.8, linestyle=":")
        axes.set_xlabel(f"environment steps{f' ({name})' if name else ''}")
        axes.set_ylabel(UNITS.get(options.metric, options.metric.replace("_", " ")))
    if options.metric in RATES:
        _curves.limit_rates(figure)
    _curves.add_legend(figure, counts)
    return figure


def table(curves: Curves, options: PlotOptions = DEFAULT) -> Iterator[str]:
    """Yield the final value of each curve, its mean over all steps, and when each seed reaches the level of the options."""
    envs, name = _runs.panels(curves), options.metric.replace("_", " ")
    unit = 1e6 if max(_longest(runs, options) for runs in curves.values()) >= FEW_STEPS else 1.0
    steps = "million steps" if unit > 1 else "steps"
    head = f"| final {name} ({stats.FINAL_MEANING}) | {steps} | by seed | {STATISTICS[options.statistic]} | spread |"
    head += " episodes per seed | mean over all steps |"
    if options.level is not None:
        head += f" {stats.HELD} evaluations in a row at {_shown(options.metric)(options.level)} or more: from {steps} |"
        head += " seconds, compilation included |"
    yield head
    yield "|---|---:|---|---:|---|---:|---:|" + ("---|---|" if options.level is not None else "")
    for env, members in envs.items():
        for label, runs in members.items():
            cells = _cells(runs, options, unit) + _level_cells(runs, options, unit)
            yield f"| {label if len(envs) == 1 else f'{label} on {env}'} | {' | '.join(cells)} |"
    for label in curves:
        groups = [final_values(members[label], options) for members in envs.values() if label in members]
        if len(groups) > 1 and len(set(map(len, groups))) == 1:
            cells = ["", "", *_summary(groups, options), "", "", *([""] * 2 if options.level is not None else [])]
            yield f"| {label}, {STATISTICS[options.statistic]} over all {len(groups)} environments | {' | '.join(cells)} |"


def seed_curves(runs: Sequence[RunDir], options: PlotOptions = DEFAULT) -> tuple[np.ndarray, np.ndarray]:
    """Return a grid of steps that every seed has reached, and each seed's values interpolated there."""
    points = [np.column_stack([each[:, 0], _smoothed(each[:, 1], options.smooth)]) for each in _points(runs, options)]
    grid = np.linspace(0, min(curve[-1, 0] for curve in points), POINTS)
    return grid, np.stack([np.interp(grid, curve[:, 0], curve[:, 1]) for curve in points])


def final_values(runs: Sequence[RunDir], options: PlotOptions = DEFAULT) -> np.ndarray:
    """Return the final value of each seed."""
    return np.array([stats.final(points) for points in _points(runs, options)])


def _seed_curves(members: Curves, options: PlotOptions) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {label: seed_curves(runs, options) for label, runs in members.items()}


def _points(runs: Sequence[RunDir], options: PlotOptions) -> list[np.ndarray]:
    points = _runs.series(runs, options.metric)
    if options.until is None:
        return points
    if any(each[0, 0] > options.until for each in points):
        raise RefilError(f"until {options.until:,} is before the first value of {options.metric} in {runs[0].path}")
    return [each[each[:, 0] <= options.until] for each in points]


def _shown(metric: str) -> Callable[[Any], str]:
    return "{:.0%}".format if metric in RATES else "{:.3g}".format


def _smoothed(values: np.ndarray, number: int) -> np.ndarray:
    """Return the moving average over the last `number` values, over fewer at the start."""
    sums = np.cumsum(np.insert(values, 0, 0.0))
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - number, 0)
    return (sums[last] - sums[first]) / (last - first)


def _longest(runs: Sequence[RunDir], options: PlotOptions) -> float:
    return float(max(points[-1, 0] for points in _points(runs, options)))


def _unit(longest: float) -> tuple[float, str]:
    """Return the unit of the steps of a panel and its name."""
    return next(((unit, name) for unit, name in ((1e6, "million"), (1e3, "thousand")) if longest >= unit), (1.0, ""))


def _cells(runs: Sequence[RunDir], options: PlotOptions, unit: float) -> list[str]:
    show = _shown(options.metric)
    lengths = sorted({points[-1, 0] for points in _points(runs, options)})
    ends = [f"{length / 1e6:.2g}" if unit > 1 else f"{length:.0f}" for length in lengths]
    finals = final_values(runs, options)
    steps = " to ".join(dict.fromkeys((ends[0], ends[-1])))
    seeds = ", ".join(map(show, finals)) if len(finals) <= MAX_LISTED else f"{show(finals.min())} to {show(finals.max())}"
    points = _points(runs, options)
    whole = np.mean([stats.area(each, min(curve[-1, 0] for curve in points)) for each in points])
    return [steps, seeds, *_summary([finals], options), _episodes(runs, options), show(whole)]


def _summary(groups: list[np.ndarray], options: PlotOptions) -> list[str]:
    """Return the statistic of the final values of one or several environments, and its interval or range."""
    show, bounds = _shown(options.metric), (0.0, 1.0) if options.metric in RATES else (-np.inf, np.inf)
    value, spread = stats.aggregate(groups, options.statistic, bounds)
    return [show(value), "" if spread is None else f"{show(spread.low)} to {show(spread.high)} ({spread.name})"]


def _episodes(runs: Sequence[RunDir], options: PlotOptions) -> str:
    """Return the number of episodes behind the final value of a seed; nothing for metrics of training."""
    if options.metric not in EVALUATED and not options.metric.startswith("metrics."):
        return ""
    counts = {stats.num_final(points) * _runs.eval_episodes(run) for run in runs for points in _points([run], options)}
    return " to ".join(f"{count:,}" for count in dict.fromkeys((min(counts), max(counts))))


def _shown_steps(steps: float, unit: float) -> str:
    if unit == 1:
        return f"{steps:.0f}"
    return f"{steps / 1e6:.1f}" if steps >= 1e6 else f"{steps / 1e6:.2g}"


def _level_cells(runs: Sequence[RunDir], options: PlotOptions, unit: float) -> list[str]:
    """Return from which step and second on each seed holds the level."""
    if options.level is None:
        return []
    steps, seconds = [], []
    for points, clock in zip(_points(runs, options), _runs.series(runs, "seconds"), strict=True):
        first = stats.held_from(points[:, 1], options.level)
        steps.append("never" if first is None else _shown_steps(points[first, 0], unit))
        seconds.append("never" if first is None else f"{np.interp(points[first, 0], *clock.T):.0f}")
    return [", ".join(steps), ", ".join(seconds)]
