"""Probabilities of improvement, from final win rates worked out by hand."""

import pytest

from refil.errors import RefilError
from refil.plots import improvement
from tests.plots.made_up import constant, made_up


def test_the_first_label_is_compared_with_each_other_one(tmp_path):
    rates = {"ours": [0.5, 0.2], "a": [0.1, 0.2, 0.3], "b": [0.5]}
    curves = {label: [constant(tmp_path / label, values)] for label, values in rates.items()}
    _, _, *rows = improvement.table(curves)
    assert rows == [
        "| than a on group_matching | 0.75 |  | 2 and 3 seeds |",  # 3 pairs, and 1 pair and a tie
        "| than b on group_matching | 0.25 |  | 2 and 1 seeds |",
    ]
    (axes,) = improvement.draw(curves).axes
    assert [line.get_xdata()[0] for line in axes.lines] == [0.75, 0.25, 0.5]  # two points, and the line at one half
    assert axes.get_xlabel() == "probability that ours is better"


def test_five_seeds_have_an_interval(tmp_path):
    curves = {name: [constant(tmp_path / name, [0.1 * n + low for n in range(5)])] for name, low in (("a", 0.0), ("b", 0.05))}
    *_, row = improvement.table(curves)
    assert row.startswith("| than b on group_matching | 0.40 | 0.")
    assert row.endswith("(95 % bootstrap interval over 5 seeds) | 5 and 5 seeds |")
    assert len(improvement.draw(curves).axes[0].lines) == 3


def test_runs_of_different_length_are_compared_after_as_many_steps(tmp_path):
    ours = made_up(tmp_path / "ours", [(0, 10 * n, n / 100) for n in range(101)])
    theirs = made_up(tmp_path / "theirs", [(0, 10 * n, 0.5) for n in range(51)])
    (own,), (other,) = improvement.final_values([ours], [theirs])
    assert (own, other) == (pytest.approx(0.475), 0.5)
    assert improvement.compare([ours], [theirs]).value == 0


def test_there_must_be_something_to_compare_with(tmp_path):
    with pytest.raises(RefilError, match="compares 'ours', the first label, with other labels on group_matching"):
        improvement.draw({"ours": [constant(tmp_path / "run", [0.5])]})
