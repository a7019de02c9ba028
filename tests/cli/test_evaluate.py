"""`refil evaluate`."""

import json
import math

import jax
import jax.numpy as jnp
import pytest

from refil.cli import evaluate
from refil.errors import RefilError
from refil.storage import run_dir
from refil.training import config
from refil.training.evaluation import EvalResult
from tests.tiny_runs import small


def test_the_result_is_json_with_the_documented_keys(refil, run):
    result = json.loads(refil("evaluate", str(run.path), "--episodes", "12", "--json")[0])
    means = {"win_rate", "return_mean", "length_mean", "won_length_mean"}
    assert set(result) == means | {"episodes", "win_rate_spread", "win_rate_by_seed", "seeds"}
    assert result["episodes"] == 12
    assert result["seeds"] == 2
    by_seed = result["win_rate_by_seed"]
    assert list(by_seed) == ["0", "1"]
    low, high = min(by_seed.values()), max(by_seed.values())
    assert result["win_rate_spread"] == {"low": low, "high": high, "name": "min to max of 2 seeds"}
    assert result["win_rate"] == pytest.approx((low + high) / 2)
    assert 1 <= result["length_mean"] <= 6


def test_the_result_is_printed_as_text_by_default(refil, run):
    printed = refil("evaluate", str(run.path), "--episodes", "12")[0]
    result = json.loads(refil("evaluate", str(run.path), "--episodes", "12", "--json")[0])
    spread = result["win_rate_spread"]
    assert f"  win rate  {result['win_rate']:.3f}  ({spread['low']:.3f} to {spread['high']:.3f}, min to max of" in printed
    assert f"  return    {result['return_mean']:.3f}\n  length    {result['length_mean']:.1f} steps" in printed
    for seed, rate in result["win_rate_by_seed"].items():
        assert f"  win rate of seed {seed:<4} {rate:.3f}" in printed
    assert "fresh evaluation of the saved models of 2 seeds, 12 greedy episodes each" in printed
    assert "min to max of 2 seeds)" in printed


def test_metrics_of_the_environment_are_part_of_the_result(run):
    numbers = ([0.5, 1.0], [1.0, 2.0], [3.0, 3.0], [4.0, 3.0])
    played = EvalResult(*map(jnp.asarray, numbers), {"arrived": jnp.asarray([2.0, 4.0])})
    result = evaluate._summary(played, evaluate.EvaluateArgs(str(run.path)))
    assert result["metrics.arrived"] == 3.0
    assert "  metrics.arrived 3.000" in evaluate._text(result)
    assert result["won_length_mean"] == 3.5
    assert "  won in    3.5 steps" in evaluate._text(result)


@pytest.mark.parametrize(("lengths", "mean", "text"), [([math.nan, 3.0], 3.0, "3.0"), ([math.nan, math.nan], None, "-")])
def test_seeds_that_win_nothing_have_no_length_of_won_episodes(run, lengths, mean, text):
    played = EvalResult(*map(jnp.asarray, ([0.0, 0.5], [1.0, 2.0], [3.0, 3.0], lengths)), {})
    result = evaluate._summary(played, evaluate.EvaluateArgs(str(run.path)))
    assert result["won_length_mean"] == mean
    assert f"  won in    {text} steps" in evaluate._text(result)


def test_by_task_every_metric_has_a_column_and_progress_counts_tasks(refil, run, monkeypatch):
    rates, texts = jnp.array([[0.5, 1.0]]), []
    played = EvalResult(rates, rates, rates, jnp.array([[jnp.nan, 2.0]]), {"arrived": 4 * rates})
    monkeypatch.setattr(evaluate, "_play", lambda *given: played)
    monkeypatch.setattr(run_dir.RunDir, "write_by_task", lambda *given, **means: texts.append(means))
    monkeypatch.setattr(run_dir.RunDir, "by_task", lambda run: {"group_matching": [0.5, 1.0]})
    head, row = refil("evaluate", str(run.path), "--by-task")[0].splitlines()[1:]
    assert head.split() == ["task", "win", "rate", "return", "length", "won", "in", "metrics.arrived"]
    assert row.split() == ["group_matching", "0.750", "0.750", "0.8", "2.0", "3.000"]
    assert len(head) == len(row)
    assert texts[0]["metrics.arrived"] == {"group_matching": [2.0, 4.0]}
    assert texts[0]["won_length_mean"] == {"group_matching": [None, 2.0]}


@pytest.mark.slow
def test_the_best_seed_is_evaluated_again_on_other_episodes(refil, run):
    words = ["evaluate", str(run.path), "--episodes", "40", "--best"]
    result = json.loads(refil(*words, "--json")[0])
    first = result["win_rate_when_chosen"]
    assert first == json.loads(refil("evaluate", str(run.path), "--episodes", "40", "--json")[0])["win_rate_by_seed"]
    assert first[str(result["best_seed"])] == max(first.values())
    assert result["win_rate_spread"]["name"] == "Wilson's 95 % interval over 40 episodes"
    printed = refil(*words)[0]
    assert "the best of 2 saved models, by a first evaluation of 40 greedy episodes each" in printed
    assert f"Seed {result['best_seed']} evaluated again on 40 greedy episodes with fresh random seeds" in printed


def test_the_best_seed_does_not_play_the_same_episodes_twice(run):
    args, setup = evaluate.EvaluateArgs(str(run.path), episodes=40), run.config.build()
    first, again = (evaluate._play(run, setup, args, row) for row in (None, 0))
    assert first.return_mean[0] != again.return_mean[0]


def test_the_best_seed_is_not_evaluated_by_task(refil, run):
    _, error, code = refil("evaluate", str(run.path), "--best", "--by-task")
    assert code == 2
    assert "give one of the two" in error


def test_results_by_task_are_stored_and_can_be_ranked(refil, run, tmp_path):
    result = json.loads(refil("evaluate", str(run.path), "--by-task", "--episodes", "5", "--json")[0])
    assert result["episodes"] == 5
    assert list(result["win_rate"]) == list(run.config.build_env().task_names)
    assert all(rate * 5 == round(rate * 5) for rates in result["win_rate"].values() for rate in rates)
    assert run.by_task() == result["win_rate"]
    stored = json.loads((run.path / run_dir.BY_TASK).read_text())
    assert set(stored) == {"episodes", "won", "return_mean", "length_mean", "won_length_mean", "models", "checksum"}
    assert {name: result[name] for name in ("return_mean", "length_mean")} == {
        name: stored[name] for name in ("return_mean", "length_mean")
    }
    assert all(1 <= length <= 6 for lengths in stored["length_mean"].values() for length in lengths)
    printed = refil("evaluate", str(run.path), "--by-task", "--episodes", "5")[0].splitlines()
    assert printed[1].split() == ["task", "win", "rate", "return", "length", "won", "in"]
    assert printed[2].split()[0] == "group_matching"
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


def test_a_team_plays_in_another_environment_with_the_options_of_its_own(refil, run):
    words = ["evaluate", str(run.path), "--episodes", "6", "--json"]
    own, other = (json.loads(refil(*words, *more)[0]) for more in ([], ["--env", "group_matching"]))
    assert other == own


def test_evaluating_in_another_environment_writes_no_results_into_the_run(refil, run):
    before = sorted(path.name for path in run.path.iterdir())
    printed = refil("evaluate", str(run.path), "--episodes", "6", "--env", "group_matching", "--by-task")[0]
    assert f"{run.path} in group_matching: fresh evaluation" in printed
    assert sorted(path.name for path in run.path.iterdir()) == before


def test_an_environment_with_other_features_is_refused(run):
    with pytest.raises(RefilError, match=r"the run needs an environment with .* features and .* actions; 3-8sz has"):
        evaluate.main([str(run.path), "--env", "3-8sz"])


def test_draws_of_units_that_do_not_vary_are_refused(refil, run):
    _, error, code = refil("evaluate", str(run.path), "--draw-seed", "1")
    assert code == 2
    assert "the unit stats of group_matching do not vary" in error


def test_the_draw_seed_is_part_of_the_title():
    args = evaluate.EvaluateArgs("runs/x", tasks="held-out", draw_seed=0)
    assert evaluate._where(args) == "runs/x, tasks held-out, draw seed 0"
    assert args.elsewhere == {"tasks": "held-out", "draw_seed": 0}


@pytest.fixture(scope="module")
def battles(tmp_path_factory):
    """Untrained teams of a set with held-out tasks, one trained on all tasks and one only on the others."""
    found = {}
    for tasks in ("all", "train"):
        chosen = config.default("3-8sz", "vdn_attention").with_options({"tasks": tasks, "limit": 2}, {"size": 8, "heads": 2})
        run = run_dir.create(tmp_path_factory.mktemp("runs") / tasks, chosen)
        models = jax.vmap(chosen.build().method.init)(jax.random.split(jax.random.key(0), 1))
        run.save_models(models, [0], chosen)
        found[tasks] = str(run.path)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "known"), [("all", 8), ("train", 0)])
def test_tasks_that_were_not_held_out_in_training_are_called_so(refil, battles, tasks, known):
    words = ["evaluate", battles[tasks], "--tasks", "held-out", "--episodes", "1"]
    assert json.loads(refil(*words, "--json")[0])["tasks_trained_on"] == known
    note = f"NOTE: {known} of these tasks were not held out when this team was trained"
    assert (note in refil(*words)[0]) == (known > 0)
    assert "tasks_trained_on" not in json.loads(refil(*words[:2], "--episodes", "1", "--json")[0])


def test_the_note_counts_tasks_that_were_played_in_training():
    args = evaluate.EvaluateArgs("run", tasks="held-out")
    assert evaluate._held_out(args, ("3s", "3z"), ("3z", "4z")) == {"tasks_trained_on": 1}
    assert evaluate._note({"tasks_trained_on": 0}) == evaluate._note({}) == []
    assert evaluate._held_out(evaluate.EvaluateArgs("run", tasks="train"), ("3s",), ("3s",)) == {}


def test_a_folder_in_place_of_the_file_is_refused_before_anything_is_played(refil, untrained_team):
    team = untrained_team("3-8sz")
    (team.path / "by_task.json").mkdir()
    _, error, code = refil("evaluate", str(team.path), "--by-task")
    assert code == 2
    assert "by_task.json: it is a folder" in error
    assert "compiling" not in error
