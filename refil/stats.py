"""Confidence intervals, without assumptions where several seeds allow it."""

import numpy as np

RESAMPLES = 2000
Z95 = 1.959964
Floats = np.ndarray | np.float64


def mean_interval(values: np.ndarray) -> tuple[Floats, Floats, Floats]:
    """Mean over the first axis (seeds) and its 95 % interval by bootstrap.

    With few seeds it is too narrow: of three it is all that lies between them, which holds the true mean three times in four,
    of five more than four times in five. With one seed it is the mean.
    """
    values = np.asarray(values, float)
    seeds = len(values)
    # Weights instead of resampled copies: a resample is how often each seed is drawn.
    draws = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLES) / seeds
    means = np.tensordot(draws, values, axes=1)
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return values.mean(axis=0), low, high


def share_interval(share: float, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of independent trials."""
    centre = (share + Z95**2 / (2 * trials)) / (1 + Z95**2 / trials)
    half = Z95 / (1 + Z95**2 / trials) * np.sqrt(share * (1 - share) / trials + Z95**2 / (4 * trials**2))
    return float(max(centre - half, 0.0)), float(min(centre + half, 1.0))
