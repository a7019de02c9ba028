"""The figure and table of the long runs, from made-up metrics."""

import pytest

from refil.errors import RefilError
from refil.experiments import figure_4, ten_million
from tests.plots.made_up import made_up


def runs_with(path, points):
    """Create a run with the same evaluations for each task set."""
    runs = ten_million.runs().items()
    return {label: made_up(path / f"run_{number}", points, config) for number, (label, config) in enumerate(runs)}


def test_refil_runs_on_every_task_set_as_in_the_paper():
    runs = ten_million.runs().values()
    assert [(made.method.name, made.env.name) for made in runs] == [("refil", env) for env in figure_4.TASK_SETS]
    assert {(made.train.steps, made.train.seeds, made.algorithm.batch) for made in runs} == {(10_000_000, 1, 32)}


def test_the_table_has_the_win_rate_just_before_each_column(tmp_path):
    # Half are won from shortly before 1M steps, all only at the end.
    rates = [0.5 * (n >= 8) + 0.5 * (n >= 98) for n in range(101)]
    done = runs_with(tmp_path, [(0, n * 10**5, rate) for n, rate in enumerate(rates)])
    assert ten_million.report(done, tmp_path).exists()
    head, line, *rows = (tmp_path / "ten_million.md").read_text().splitlines()
    final = "final (mean over the last 10 % of each seed's steps)"
    assert head == f"| win rate at million steps | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | {final} | by seed | spread |"
    assert line.count("---") == 14
    # The last tenth has 11 evaluations: 8 of 50 % and 3 of 100 %.
    assert rows == [f"| {label} | {'50% | ' * 9}100% | 64% | 64% |  |" for label in done]


def test_folders_of_more_seeds_join_the_curve(tmp_path):
    done = runs_with(tmp_path, [(0, 0, 0.5), (0, 10**7, 0.5)])
    first = next(iter(done.values()))
    made_up(tmp_path / f"{first.path.name}_seeds_1_to_2", [(s, n, 0.2 * s) for s in (1, 2) for n in (0, 10**7)], first.config)
    ten_million.report(done, tmp_path)
    row = (tmp_path / "ten_million.md").read_text().splitlines()[2]
    assert row.endswith("| 37% | 50%, 20%, 40% | 20% to 50% (min to max of 3 seeds) |")
    made_up(tmp_path / f"{first.path.name}_seeds_again", [(0, 0, 0.5)], first.config)
    with pytest.raises(RefilError, match=f"{first.path} and .*_seeds_again both have seed 0"):
        ten_million.report(done, tmp_path)
