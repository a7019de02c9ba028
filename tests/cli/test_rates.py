"""Tables of win rates by task."""

import numpy as np

from refil.cli import _rates


def test_the_best_task_comes_first_and_a_task_that_nobody_won_has_no_length():
    rates = {"1m": [0.0, 0.0], "2m": [0.5, 1.0]}
    means = {
        "return_mean": {"1m": [1.0, 2.0], "2m": [20.0, 10.0]},
        "length_mean": {"1m": [4.0, 6.0], "2m": [8.0, 8.0]},
        "won_length_mean": {"1m": [None, None], "2m": [7.0, None]},
    }
    head, best, worst = _rates.by_task(["1m", "2m"], rates, means)
    assert head.split() == ["task", "win", "rate", "return", "length", "won", "in"]
    assert best.split() == ["2m", "0.750", "15.000", "8.0", "7.0"]
    assert worst.split() == ["1m", "0.000", "1.500", "5.0", "-"]


def test_a_mean_counts_only_what_is_known():
    assert _rates.mean(np.array([1.0, np.nan, 3.0])) == 2.0
    assert _rates.mean(np.array([np.nan])) is None
