"""Checks run one after another; exceptions in a user's code are failures with a sentence."""

import numpy as np

from refil.checks.report import Check, CheckFailed, NotApplicable, largest_difference, relative_difference, run_checks


def fail() -> str:
    raise CheckFailed("the loss is 1 instead of 2")


def skip() -> str:
    raise NotApplicable("there is one agent")


def crash() -> str:
    raise KeyError("x")


def test_every_check_has_a_result():
    started = []
    checks = [Check("good", lambda: "all"), Check("bad", fail), Check("odd", skip), Check("broken", crash)]
    good, bad, odd, broken = run_checks(checks, started.append)
    assert (good.status, good.detail) == ("ok", "all")
    assert (bad.status, bad.detail) == ("FAILED", "the loss is 1 instead of 2")
    assert (odd.status, odd.detail) == ("not applicable", "there is one agent")
    assert broken.status == "FAILED"
    assert broken.detail.endswith("in crash(): KeyError: 'x'")
    assert started == ["good", "bad", "odd", "broken"]


def test_differences_are_infinite_where_one_number_is_not_finite():
    assert largest_difference({"a": np.array([1.0, 2.0])}, {"a": np.array([1.5, 2.0])}) == 0.5
    assert largest_difference([np.nan], [1.0]) == np.inf
    assert largest_difference([np.inf], [np.inf]) == 0
    assert largest_difference((), ()) == 0
    assert relative_difference([np.array([3.0, 4.0])], [np.array([3.0, 4.5])]) == 0.1
    assert relative_difference([np.array([3.0])], [np.array([np.nan])]) == np.inf
