"""Final values and intervals, worked out by hand or by simulation."""

import numpy as np
import pytest

from refil import stats


def line(seed, steps, **values):
    return {"seed": seed, "env_steps": steps} | values


def test_a_series_has_the_finite_values_of_each_seed():
    lines = [line(1, 10, loss=None), line(0, 20, loss=0.5), line(1, 30, loss=float("nan")), line(1, 40, loss=2), line(0, 50)]
    found = stats.series(lines, "loss")
    assert {seed: points.tolist() for seed, points in found.items()} == {0: [[20, 0.5]], 1: [[40, 2]]}
    assert stats.series(lines, "win_rate") == {}


def test_the_final_value_is_the_mean_over_the_last_tenth_of_a_seeds_own_steps():
    points = np.array([[0, 0.0], [899, 0.2], [900, 0.4], [950, 0.5], [1000, 0.9]])
    assert stats.final(points) == pytest.approx((0.4 + 0.5 + 0.9) / 3)
    assert stats.final(points[:3]) == pytest.approx((0.2 + 0.4) / 2)  # a seed that stopped at 900 steps
    assert stats.final(points[:1]) == 0.0


def test_a_level_is_held_from_the_first_of_several_evaluations_at_or_above_it():
    values = np.array([0.9, 0.2, 0.8, 0.9, 0.8, 0.7])
    assert stats.held_from(values, 0.8, 3) == 2
    assert stats.held_from(values, 0.7) is None
    assert stats.held_from(values, 0.7, 4) == 2
    assert stats.held_from(values[:2], 0.1) is None  # fewer evaluations than that


def test_a_single_seed_has_no_spread():
    assert stats.spread(np.array([0.25])) is None
    assert stats.spread_name(1) == "1 seed"


def test_two_to_four_seeds_have_a_range():
    low, high, name = stats.spread(np.array([[0.5, 1.0], [0.25, 3.0], [0.75, 2.0]]))
    np.testing.assert_array_equal((low, high), [[0.25, 1.0], [0.75, 3.0]])
    assert name == "min to max of 3 seeds"


def test_five_seeds_have_a_t_interval():
    # Mean 0.3, standard error 0.1581 / sqrt(5) = 0.0707, t quantile 2.776.
    low, high, name = stats.spread(np.array([0.1, 0.2, 0.3, 0.4, 0.5]))
    np.testing.assert_allclose((low, high), (0.3 - 0.1963, 0.3 + 0.1963), atol=1e-4)
    assert name == "95 % t interval over 5 seeds"


def test_intervals_end_at_the_bounds_of_the_values():
    # Mean 0.8, standard error 0.4472 / sqrt(5) = 0.2.
    low, high, _ = stats.spread(np.array([1.0, 1.0, 1.0, 1.0, 0.0]), (0.0, 1.0))
    np.testing.assert_allclose((low, high), (0.8 - 2.776 * 0.2, 1.0), atol=1e-3)


@pytest.mark.parametrize(("freedom", "expected"), [(4, 2.7764), (7, 2.3646), (23, 2.0687), (1000, 1.9623)])
def test_quantiles_agree_with_printed_tables(freedom, expected):
    assert stats.t_quantile(freedom) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("around 20 %", (0.93, 0.93, 0.94)), ("around 90 %", (0.90, 0.91, 0.93)), ("one in eight fails", (0.91, 0.89, 0.93))],
)
def test_intervals_cover_the_mean_of_skewed_win_rates_as_often_as_documented(name, expected):
    random = np.random.default_rng(0)
    for seeds, coverage in zip((5, 8, 24), expected, strict=True):
        size = (seeds, 10_000)
        fails, rates = random.random(size) < 1 / 8, random.beta(16, 24, size)
        values, mean = {
            "around 20 %": (random.beta(2, 8, size), 0.2),
            "around 90 %": (random.beta(9, 1, size), 0.9),
            "one in eight fails": (np.where(fails, 0.02, rates), (0.02 + 7 * 0.4) / 8),
        }[name]
        low, high, _ = stats.spread(values, (0.0, 1.0))
        assert ((low <= mean) & (mean <= high)).mean() == pytest.approx(coverage, abs=0.012)


def test_wilsons_interval_is_named():
    low, high, name = stats.wilson_spread(0.5, 100)
    np.testing.assert_allclose((low, high), (0.4038, 0.5962), atol=1e-4)
    assert name == "Wilson's 95 % interval over 100 episodes"


@pytest.mark.parametrize(
    ("rate", "trials", "expected"), [(0.5, 100, (0.4038, 0.5962)), (0.0, 10, (0.0, 0.2775)), (1.0, 10, (0.7225, 1.0))]
)
def test_wilsons_interval(rate, trials, expected):
    np.testing.assert_allclose(stats.wilson_interval(rate, trials), expected, atol=1e-4)
