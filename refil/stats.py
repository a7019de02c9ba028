"""Statistics of runs: final values, how much they vary over seeds or episodes, and comparisons of methods.

The final value of a seed is the mean of its evaluations in the last 10 % of its steps. Summaries, figures and tables all use
that definition (`final`). `docs/reproduction.md` says which interval is used when.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

Z95 = 1.959964
FINAL = 0.1  # the last fraction of a seed's steps, whose evaluations count as final
FINAL_MEANING = "mean over the last 10 % of each seed's steps"
HELD = 5  # evaluations in a row at or above a level that count as holding it
MIN_SEEDS = 5  # fewer seeds have a range, more have a confidence interval
RESAMPLES = 10_000  # bootstrap samples
Floats = np.ndarray | np.float64


class Spread(NamedTuple):
    """The variation of values over seeds or episodes: an interval or a range, and its name."""

    low: Floats | float
    high: Floats | float
    name: str


class Estimate(NamedTuple):
    """A statistic of several seeds, and its interval or range (None for one seed)."""

    value: float
    spread: Spread | None


def series(lines: Iterable[dict[str, Any]], metric: str) -> dict[int, np.ndarray]:
    """Return the steps and finite values `[points, 2]` of a metric for each seed, from the lines of a run's metrics."""
    by_seed: dict[int, list[tuple[int, float]]] = {}
    for line in lines:
        if is_number(line.get(metric)):
            by_seed.setdefault(line["seed"], []).append((line["env_steps"], line[metric]))
    return {seed: np.array(points, float) for seed, points in sorted(by_seed.items())}


def is_number(value: Any) -> bool:
    """Return whether a value of a line of metrics is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def final(points: np.ndarray) -> float:
    """Return the final value of one seed: the mean over the last 10 % of its steps. `points` is one entry of `series`."""
    return float(points[_is_final(points), 1].mean())


def num_final(points: np.ndarray) -> int:
    """Return the number of evaluations that count as final."""
    return int(_is_final(points).sum())


def _is_final(points: np.ndarray) -> np.ndarray:
    return points[:, 0] >= (1 - FINAL) * points[:, 0].max()


def area(points: np.ndarray, end: int | float | None = None) -> float:
    """Return the area under the curve of one seed from step 0 to `end` (its last step), divided by `end`: its mean value.

    Evaluations are connected by straight lines; before the first one the curve is constant.
    """
    steps, values = points.T
    end = float(steps[-1]) if end is None else end
    x = np.array([0.0, *steps[(steps > 0) & (steps < end)], end])
    return float(np.trapezoid(np.interp(x, steps, values), x) / end)


def held_from(values: np.ndarray, level: float, evaluations: int = HELD) -> int | None:
    """Return the index of the first of `evaluations` consecutive evaluations at or above a level, or None."""
    if len(values) < evaluations:
        return None
    reached = np.asarray(values) >= level
    starts = np.flatnonzero(np.convolve(reached, np.ones(evaluations), "valid") == evaluations)
    return int(starts[0]) if len(starts) else None


def spread(values: np.ndarray, bounds: tuple[float, float] = (-np.inf, np.inf)) -> Spread | None:
    """Return how much values vary over the first axis (seeds): None for one seed, the range of two to four, or an interval.

    The interval is the 95 % t interval of the mean, cut at the bounds that values cannot pass. In simulations with 5, 8 and 24
    seeds it covers the true mean in 93, 93 and 94 % of cases for skewed win rates around 20 %, in 90, 91 and 93 % for those
    around 90 %, and in 91, 89 and 93 % if one seed in eight learns nothing. If only one seed in four learns, five seeds are too
    few: 76, 89 and 94 %. The percentile bootstrap covers less (77 to 83 % for five seeds in the first three cases), and the
    studentized bootstrap covers as much with intervals that may be wider than all win rates.
    """
    values = np.asarray(values, float)
    seeds = len(values)
    if seeds == 1:
        return None
    if seeds < MIN_SEEDS:
        return Spread(values.min(axis=0), values.max(axis=0), spread_name(seeds))
    half = t_quantile(seeds - 1) * values.std(axis=0, ddof=1) / np.sqrt(seeds)
    mean = values.mean(axis=0)
    return Spread(np.clip(mean - half, *bounds), np.clip(mean + half, *bounds), spread_name(seeds))


def spread_name(seeds: int) -> str:
    """Return what `spread` returns for a number of seeds, in words."""
    if seeds == 1:
        return "1 seed"
    return f"min to max of {seeds} seeds" if seeds < MIN_SEEDS else f"95 % t interval over {seeds} seeds"


def iqm(values: np.ndarray, axis: int = 0) -> Floats:
    """Return the interquartile mean: the mean without the lowest and the highest quarter of the values, rounded down."""
    ordered = np.sort(np.asarray(values, float), axis=axis)
    cut = ordered.shape[axis] // 4
    return ordered.take(np.arange(cut, ordered.shape[axis] - cut), axis=axis).mean(axis=axis)


STATISTICS: dict[str, Callable[..., Any]] = {"mean": np.mean, "median": np.median, "iqm": iqm}


def aggregate(groups: Sequence[np.ndarray], statistic: str, bounds: tuple[float, float] = (-np.inf, np.inf)) -> Estimate:
    """Return the mean, median or IQM of all values of all groups; a group has the seeds of one environment on its first axis.

    The mean of one group has the interval or range of `spread`. Everything else has a stratified bootstrap interval if all
    groups have at least five seeds, and otherwise the range of the seeds of one group or, for several groups, nothing.
    """
    groups, name = [np.asarray(group, float) for group in groups], statistic
    pooled = np.concatenate([group.ravel() for group in groups])
    value, fewest = float(STATISTICS[name](pooled)), min(map(len, groups))
    if len(groups) == 1 and groups[0].ndim == 1 and (name == "mean" or fewest < MIN_SEEDS):
        return Estimate(value, spread(groups[0], bounds))
    if fewest < MIN_SEEDS:
        return Estimate(value, None)
    samples = np.concatenate([each.reshape(RESAMPLES, -1) for each in _resample(groups)], axis=1)
    return Estimate(value, _percentiles(STATISTICS[name](samples, axis=1), groups))


def improvement(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> Estimate:
    """Return the probability that a seed of ours is better than one of theirs, averaged over environments.

    Each group has the values of the seeds of one environment; ties count one half. With five seeds or more everywhere the
    interval is a stratified bootstrap. It has no width where all of our seeds are better than all of theirs.
    """
    ours, theirs = ([np.asarray(group, float) for group in groups] for groups in (ours, theirs))
    value = np.mean([_fraction_better(a[None], b[None])[0] for a, b in zip(ours, theirs, strict=True)])
    if min(map(len, [*ours, *theirs])) < MIN_SEEDS:
        return Estimate(float(value), None)
    pairs = zip(_resample(ours), _resample(theirs, seed=1), strict=True)
    return Estimate(float(value), _percentiles(np.mean([_fraction_better(*pair) for pair in pairs], axis=0), [*ours, *theirs]))


def profile(rates: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return the performance profile of each seed: for each threshold the fraction of its tasks with a higher rate.

    `rates` is `[seeds, tasks]`. All tasks of a seed were learned by one network, so only seeds vary independently.
    """
    return (np.asarray(rates)[:, :, None] > thresholds).mean(axis=1)


def _resample(groups: Sequence[np.ndarray], seed: int = 0) -> list[np.ndarray]:
    """Draw seeds with replacement within each group; the first axis of the results is the resamples."""
    random = np.random.default_rng(seed)
    return [group[random.integers(len(group), size=(RESAMPLES, len(group)))] for group in groups]


def _percentiles(samples: np.ndarray, groups: Sequence[np.ndarray]) -> Spread:
    low, high = np.quantile(samples, (0.025, 0.975))
    counts = sorted({len(group) for group in groups})
    seeds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    return Spread(float(low), float(high), f"95 % bootstrap interval over {seeds} seeds")


def _fraction_better(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    difference = np.sign(ours[:, :, None] - theirs[:, None, :])
    return (1 + difference.mean(axis=(1, 2))) / 2


def t_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t distribution, within 0.001 from four degrees of freedom on.

    This is the Cornish-Fisher expansion around the normal quantile.
    """
    z, n = Z95, freedom
    terms = (
        (z**3 + z) / (4 * n),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3),
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4),
    )
    return z + sum(terms)


def wilson_spread(rate: float, episodes: int) -> Spread:
    """Return Wilson's 95 % interval for a win rate over independent episodes."""
    return Spread(*wilson_interval(rate, episodes), f"Wilson's 95 % interval over {episodes:,} episodes")


def wilson_interval(rate: float, trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a success rate over independent trials."""
    center = (rate + Z95**2 / (2 * trials)) / (1 + Z95**2 / trials)
    half = Z95 / (1 + Z95**2 / trials) * np.sqrt(rate * (1 - rate) / trials + Z95**2 / (4 * trials**2))
    return float(max(center - half, 0.0)), float(min(center + half, 1.0))
