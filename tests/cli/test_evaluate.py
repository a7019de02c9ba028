"""`refil evaluate`."""

import json

from refil.cli import evaluate
from refil.storage import run_dir
from tests.tiny_runs import small


def test_the_result_is_json_with_the_documented_keys(refil, run):
    result = json.loads(refil("evaluate", str(run.path), "--episodes", "12", "--json")[0])
    assert set(result) == {"episodes", "win_rate", "win_rate_ci95", "return_mean", "length_mean", "seeds"}
    assert result["episodes"] == 12
    assert result["seeds"] == 2
    low, high = result["win_rate_ci95"]
    assert 0 <= low <= result["win_rate"] <= high <= 1
    assert 1 <= result["length_mean"] <= 6


def test_the_result_is_printed_as_text_by_default(refil, run):
    assert "win rate" in refil("evaluate", str(run.path), "--episodes", "12")[0]


def test_results_by_task_are_stored_and_can_be_ranked(refil, run, tmp_path):
    result = json.loads(refil("evaluate", str(run.path), "--by-task", "--episodes", "5", "--json")[0])
    assert result["episodes"] == 5
    assert list(result["win_rate"]) == list(run.config.build_env().task_names)
    assert all(rate * 5 == round(rate * 5) for rates in result["win_rate"].values() for rate in rates)
    assert run.by_task() == result["win_rate"]
    assert "task(s)" in refil("evaluate", str(run.path), "--by-task", "--episodes", "5")[0]
    assert refil("plot", str(run.path), "--figure", "tasks_ranked", "--out", str(tmp_path / "tasks.png"))[2] == 0


def test_a_folder_without_models_is_refused(refil, tmp_path):
    run_dir.create(tmp_path / "run", small())
    _, error, code = refil("evaluate", str(tmp_path / "run"))
    assert code == 2
    assert "has no model yet" in error


def test_results_of_models_that_changed_meanwhile_are_not_stored(refil, run, monkeypatch):
    times = iter((1, 2))
    monkeypatch.setattr(evaluate, "_model_times", lambda run: next(times))
    _, error, code = refil("evaluate", str(run.path), "--by-task", "--episodes", "1")
    assert code == 2
    assert "its models changed during the evaluation" in error
