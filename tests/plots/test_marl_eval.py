"""The export for marl-eval, from metrics worked out by hand."""

import json

import pytest

from refil.plots import _marl_eval
from tests.plots.made_up import made_up
from tests.tiny_runs import small


def test_all_runs_have_the_same_steps(tmp_path):
    run = made_up(tmp_path / "a", [(0, 0, 0.0), (0, 1000, 1.0), (3, 0, 0.5), (3, 2000, 0.5)])
    run.append_metrics([{"seed": 0, "env_steps": 1000, "loss": 2.0}])
    other = made_up(tmp_path / "b", [(0, 0, 0.25), (0, 1500, 0.25)])
    found = _marl_eval.export({"ours, new": [run], "theirs": [other]})["refil"]["group_matching"]
    assert list(found) == ["ours new", "theirs"]
    assert list(found["ours new"]) == ["run_0", "run_1"]
    runs = [*found["ours new"].values(), *found["theirs"].values()]
    steps = [[entry["step_count"] for name, entry in each.items() if name.startswith("step_")] for each in runs]
    assert steps == [list(range(0, 1001, 10))] * 3
    assert runs[1]["step_7"] == {"step_count": 70, "win_rate": [0.5]}
    assert runs[2]["absolute_metrics"] == {"win_rate": [0.25]}


def test_final_values_are_those_of_the_part_that_all_runs_have(tmp_path):
    short = made_up(tmp_path / "a", [(0, 0, 0.0), (0, 1000, 0.5)])
    # Up to step 1000 the last 10 % have the evaluations at 900 and 1000; later ones are not part of the exported curve.
    long = made_up(tmp_path / "b", [(0, 0, 0.0), (0, 900, 0.25), (0, 1000, 0.75), (0, 2000, 1.0)])
    late = made_up(tmp_path / "c", [(0, 1500, 0.125), (0, 2000, 1.0)])
    found = _marl_eval.export({"ours": [short], "theirs": [long, late]})["refil"]["group_matching"]
    assert found["ours"]["run_0"]["absolute_metrics"] == {"win_rate": [0.5]}
    assert [run["absolute_metrics"]["win_rate"] for run in found["theirs"].values()] == [[0.5], [0.125]]
    assert found["theirs"]["run_0"]["step_100"] == {"step_count": 1000, "win_rate": [0.75]}


def test_environments_are_tasks_and_curves_of_a_label_are_joined(tmp_path):
    first, second = (made_up(tmp_path / name, [(0, 0, 0.0), (0, 100, 1.0)]) for name in "ab")
    larger = made_up(tmp_path / "c", [(0, 0, 0.0), (0, 100, 0.5)], small().with_options({"cells": 4}))
    path = tmp_path / "out.json"
    _marl_eval.write({"ours": [first, second, larger]}, path)
    found = json.loads(path.read_text())["refil"]
    assert {task: len(members["ours"]) for task, members in found.items()} == {
        "group_matching cells 3": 2,
        "group_matching cells 4": 1,
    }
    last = found["group_matching cells 4"]["ours"]["run_0"]["step_50"]
    assert last == {"step_count": 50, "win_rate": [pytest.approx(0.25)]}
