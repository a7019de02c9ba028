"""Names, environments and metrics of runs, read without importing the code that a config names."""

import json

import pytest

from refil.errors import RefilError
from refil.plots import _runs
from refil.storage import run_dir
from tests.plots.made_up import made_up
from tests.tiny_runs import small


def of_user_files(path, folder):
    """Create a run whose environment and method are files that must not be executed."""
    run = run_dir.create(path, small())
    values = json.loads((path / run_dir.CONFIG).read_text())
    for kind in ("env", "method"):
        file = folder / f"my_{kind}.py"
        file.write_text(f"open({str(folder / 'executed')!r}, 'w')\n")
        values[kind]["name"] = str(file)
    (path / run_dir.CONFIG).write_text(json.dumps(values))
    return run


def test_methods_are_labeled_as_in_the_paper(tmp_path):
    assert _runs.method_label(run_dir.create(tmp_path / "run", small("qmix_attention"))) == "QMIX (Attention)"


def test_files_named_by_a_config_are_not_executed(tmp_path):
    run = of_user_files(tmp_path / "run", tmp_path)
    assert _runs.method_label(run) == "my_method"
    assert list(_runs.panels({"ours": [run]})) == ["my_env"]
    assert not (tmp_path / "executed").exists()


def test_curves_are_split_by_environment_and_by_the_options_that_differ(tmp_path):
    usual, same = (run_dir.create(tmp_path / name, small()) for name in "ab")
    larger = run_dir.create(tmp_path / "larger", small().with_options({"cells": 4}))
    assert _runs.panels({"one": [usual], "two": [same]}) == {"group_matching": {"one": [usual], "two": [same]}}
    assert _runs.panels({"one": [usual, larger], "two": [same]}) == {
        "group_matching, cells 3": {"one": [usual], "two": [same]},
        "group_matching, cells 4": {"one": [larger]},
    }


def test_files_of_the_same_name_in_other_folders_are_other_environments(tmp_path):
    runs = []
    for name in "ab":
        (tmp_path / name).mkdir()
        runs.append(of_user_files(tmp_path / name / "run", tmp_path / name))
    assert _runs.environments(runs) == [str(tmp_path / name / "my_env.py") for name in "ab"]


def test_an_unknown_metric_is_refused_with_the_choices(tmp_path):
    run = made_up(tmp_path / "run", [(0, 10, 0.5)], metric="loss")
    run.append_metrics([{"seed": 0, "env_steps": 20, "win_rate": 0.5, "peak_bytes": None}])
    with pytest.raises(RefilError, match="no metric 'los'; available: loss, win_rate"):
        _runs.series([run], "los")


def test_a_run_without_evaluations_is_refused(tmp_path):
    with pytest.raises(RefilError, match="no evaluation yet"):
        _runs.series([made_up(tmp_path / "run", [])], "win_rate")


def test_a_broken_config_is_refused(tmp_path):
    run = run_dir.create(tmp_path / "run", small())
    (run.path / run_dir.CONFIG).write_text('{"method": 3}')
    with pytest.raises(RefilError, match="is not a config of refil"):
        _runs.method_label(run)
