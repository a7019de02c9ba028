"""Confidence intervals: bootstrap over seeds, and Wilson's interval over episodes."""

import numpy as np

RESAMPLES = 2000
Z95 = 1.959964
Floats = np.ndarray | np.float64


def mean_interval(values: np.ndarray) -> tuple[Floats, Floats, Floats]:
    """Return the mean over the first axis (seeds) and the ends of its 95 % bootstrap interval.

    The interval is too narrow for few seeds: with three it covers the true mean about 75 % of the time, with five more than
    80 %. With a single seed it is the mean itself.
    """
    values = np.asarray(values, float)
    seeds = len(values)
    # A resample is given by how often each seed is drawn, so weights replace resampled copies.
    weights = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLES) / seeds
    means = np.tensordot(weights, values, axes=1)
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return values.mean(axis=0), low, high


def wilson_interval(rate: float, trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a success rate over independent trials."""
    center = (rate + Z95**2 / (2 * trials)) / (1 + Z95**2 / trials)
    half = Z95 / (1 + Z95**2 / trials) * np.sqrt(rate * (1 - rate) / trials + Z95**2 / (4 * trials**2))
    return float(max(center - half, 0.0)), float(min(center + half, 1.0))
