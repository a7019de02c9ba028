"""Confidence intervals."""

import numpy as np
import pytest

from refil import stats


def test_the_interval_contains_the_mean_and_shrinks_with_seeds():
    random = np.random.default_rng(0)
    few, many = random.random((5, 3)), random.random((500, 3))
    widths = []
    for values in (few, many):
        mean, low, high = stats.mean_interval(values)
        assert mean.shape == low.shape == (3,)
        assert ((low <= mean) & (mean <= high)).all()
        widths.append((high - low).mean())
    assert widths[1] < widths[0] / 5
    np.testing.assert_allclose(widths[1], 2 * 1.96 * np.sqrt(1 / 12 / 500), rtol=0.15)


def test_the_interval_of_a_single_seed_is_its_value():
    mean, low, high = stats.mean_interval(np.array([[0.25]]))
    assert mean == low == high == 0.25


@pytest.mark.parametrize(
    ("rate", "trials", "expected"), [(0.5, 100, (0.4038, 0.5962)), (0.0, 10, (0.0, 0.2775)), (1.0, 10, (0.7225, 1.0))]
)
def test_wilsons_interval(rate, trials, expected):
    np.testing.assert_allclose(stats.wilson_interval(rate, trials), expected, atol=1e-4)
