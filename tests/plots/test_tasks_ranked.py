"""Ranked tasks, from win rates worked out by hand."""

import numpy as np
import pytest

from refil.errors import RefilError
from refil.plots import PlotOptions, tasks_ranked
from refil.storage import run_dir
from tests.tiny_runs import small


def test_tasks_are_ranked_by_their_mean_over_seeds(tmp_path):
    run = run_dir.create(tmp_path / "run", small())
    run.write_by_task(10, {"2s": [5, 10], "3s": [9, 0], "4s": [1, 2]})
    figure = tasks_ranked.draw({"ours": [run]})
    (axes,) = figure.axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [75, 45, 15])
    assert axes.get_title() == "group_matching, 2 seeds"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("rank of the task (best first)", "win rate (%)")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ours"]


def test_runs_with_the_same_label_form_one_curve(tmp_path):
    both = [run_dir.create(tmp_path / name, small()) for name in "ab"]
    for run, won in zip(both, ({"2s": [2], "3s": [8]}, {"2s": [6], "3s": [0]}), strict=True):
        run.write_by_task(10, won)
    (axes,) = tasks_ranked.draw({"ours": both}).axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [40, 40])


def test_runs_with_the_same_label_and_other_tasks_are_refused(tmp_path):
    both = [run_dir.create(tmp_path / name, small()) for name in "ab"]
    for run, task in zip(both, ("2s", "3s"), strict=True):
        run.write_by_task(10, {task: [2]})
    with pytest.raises(RefilError, match="'ours' have different tasks"):
        tasks_ranked.draw({"ours": both})


@pytest.mark.parametrize("option", [{"metric": "loss"}, {"smooth": 3}, {"until": 1000}, {"level": 0.5}])
def test_options_of_learning_curves_are_refused(option, tmp_path):
    run = run_dir.create(tmp_path / "run", small())
    with pytest.raises(RefilError, match=f"draws win rates of by_task.json, without the options {next(iter(option))}"):
        tasks_ranked.draw({"ours": [run]}, PlotOptions(**option))


def test_a_run_without_evaluation_by_task_is_refused(tmp_path):
    with pytest.raises(RefilError, match="evaluating the run by task creates it"):
        tasks_ranked.draw({"ours": [run_dir.create(tmp_path / "run", small())]})


def test_the_table_has_the_best_and_the_median_task(tmp_path):
    run = run_dir.create(tmp_path / "run", small())
    run.write_by_task(10, {"2s": [5, 10], "3s": [10, 0], "4s": [1, 2]})
    assert list(tasks_ranked.table({"ours": [run]}))[-1] == "| ours | 75% | 50% | 2 of 3 | 2 | 10 |"
