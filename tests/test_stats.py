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


def test_the_area_under_the_curve_is_its_mean_from_step_0():
    # 0.2 up to step 100, then a line up to 0.6 at step 300: (100 * 0.2 + 200 * 0.4) / 300.
    points = np.array([[100, 0.2], [300, 0.6]])
    assert stats.area(points) == pytest.approx(1 / 3)
    assert stats.area(points, 200.0) == pytest.approx((100 * 0.2 + 100 * 0.3) / 200)


def test_the_interquartile_mean_leaves_out_a_quarter_at_either_end():
    assert stats.iqm(np.array([100, 4, 1, 3, 2, 6, 5, -9])) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert stats.iqm(np.array([5, 1, 2, 3, 9])) == pytest.approx((2 + 3 + 5) / 3)  # a quarter of five is one, rounded down
    assert stats.iqm(np.array([0.0, 1.0, 5.0])) == pytest.approx(2)


@pytest.mark.parametrize(("statistic", "expected"), [("mean", 3.0), ("median", 2.0), ("iqm", 2.0)])
def test_statistics_of_few_seeds_have_their_range(statistic, expected):
    value, (low, high, name) = stats.aggregate([np.array([1, 2, 2, 7])], statistic)
    assert (value, low, high, name) == (expected, 1, 7, "min to max of 4 seeds")


def test_the_mean_of_one_environment_has_a_t_interval_and_its_median_a_bootstrap_interval():
    seeds = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    assert stats.aggregate([seeds], "mean") == (pytest.approx(0.3), stats.spread(seeds))
    value, (low, high, name) = stats.aggregate([seeds], "median")
    # The median of five draws is 0.1 if three or more are: with probability 5.8 %, above the 2.5 % of either end.
    assert (value, low, high) == (0.3, 0.1, 0.5)
    assert name == "95 % bootstrap interval over 5 seeds"


def test_environments_are_resampled_one_by_one():
    # Without strata, a resample could have more seeds of one environment than of the other, and the mean would not be 0.5.
    value, spread = stats.aggregate([np.zeros(5), np.ones(6)[:5]], "mean")
    assert (value, spread.low, spread.high) == (0.5, 0.5, 0.5)
    assert stats.aggregate([np.zeros(3), np.ones(5)], "mean").spread is None


def test_the_bootstrap_interval_of_a_mean_has_the_width_of_the_resampled_mean():
    # Two environments of eight seeds, half 0 and half 1: the mean of 16 has the standard error 0.5 / 4.
    group = np.array([0.0, 1.0] * 4)
    _, (low, high, _) = stats.aggregate([group, group], "mean")
    np.testing.assert_allclose((low, high), (0.5 - 1.96 / 8, 0.5 + 1.96 / 8), atol=0.035)


def test_the_probability_of_improvement_counts_pairs_and_half_of_ties():
    # Above: 3 > 1, 3 > 2, 2 > 1; equal: 2 and 2; below: none.
    assert stats.improvement([np.array([3, 2])], [np.array([1, 2])]) == (pytest.approx(3.5 / 4), None)
    two = stats.improvement([np.array([1.0]), np.array([1.0])], [np.array([0.0]), np.array([1.0, 2.0, 3.0])])
    assert two.value == pytest.approx((1 + 0.5 / 3) / 2)


def test_the_probability_of_improvement_has_an_interval_from_five_seeds_on():
    value, (low, high, name) = stats.improvement([np.arange(8)], [np.arange(8) + 0.5])
    assert value == pytest.approx(28 / 64)
    assert 0.1 < low < value < high < 0.8
    assert name == "95 % bootstrap interval over 8 seeds"
    assert stats.improvement([np.arange(5) + 9], [np.arange(5)])[1][:2] == (1.0, 1.0)


def test_a_profile_is_the_fraction_of_tasks_above_each_threshold():
    rates = np.array([[0.0, 0.5, 1.0, 0.25], [1.0, 1.0, 1.0, 1.0]])
    np.testing.assert_array_equal(stats.profile(rates, np.array([0.0, 0.25, 0.5, 1.0])), [[0.75, 0.5, 0.25, 0], [1, 1, 1, 0]])


@pytest.mark.parametrize(("statistic", "seeds", "expected"), [("median", 5, 0.94), ("iqm", 5, 0.89), ("iqm", 8, 0.93)])
def test_bootstrap_intervals_cover_as_often_as_documented(statistic, seeds, expected, monkeypatch):
    monkeypatch.setattr(stats, "RESAMPLES", 1000)
    random = np.random.default_rng(0)
    truth = stats.STATISTICS[statistic](random.beta(2, 8, 400_000))
    found = [stats.aggregate([random.beta(2, 8, seeds)], statistic)[1] for _ in range(1000)]
    assert np.mean([low <= truth <= high for low, high, _ in found]) == pytest.approx(expected, abs=0.03)
