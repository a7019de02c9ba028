"""Evaluate, plot, list, bench, sweep and watch."""

import json
import os
import shutil
import sys
from dataclasses import replace

import jax
import pytest

from refil.__main__ import NO_FMA, disable_fma, main
from refil.storage import run_dir
from refil.training import config as experiment
from refil.training import trainer
from tests.tiny_runs import small


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> run_dir.Run:
    asked = small(seeds=2)
    made = run_dir.create(tmp_path_factory.mktemp("runs") / "run", asked)
    assert trainer.run(asked, made)
    return made


@pytest.fixture
def refil(monkeypatch, capsys):
    """Run a command in this process; what it printed, and its exit code."""

    def call(*arguments: str) -> tuple[str, str, int]:
        monkeypatch.setattr(sys, "argv", ["refil", *arguments])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        said = capsys.readouterr()
        return said.out, said.err, code

    return call


def test_evaluate_prints_json_with_the_promised_keys(refil, run):
    result = json.loads(refil("evaluate", str(run.path), "--episodes", "12", "--json")[0])
    assert set(result) == {"episodes", "win_rate", "win_rate_ci95", "return_mean", "length_mean", "seeds"}
    assert result["episodes"] == 12
    assert result["seeds"] == 2
    low, high = result["win_rate_ci95"]
    assert 0 <= low <= result["win_rate"] <= high <= 1
    assert 1 <= result["length_mean"] <= 6


def test_evaluate_in_words_says_the_same(refil, run):
    assert "episodes won" in refil("evaluate", str(run.path), "--episodes", "12")[0]


def test_evaluate_by_task_keeps_what_can_then_be_ranked(refil, run, tmp_path):
    result = json.loads(refil("evaluate", str(run.path), "--by-task", "--episodes", "5", "--json")[0])
    assert result["episodes"] == 5
    assert list(result["win_rate"]) == list(run.experiment.build_env().task_names)
    assert all(share * 5 == round(share * 5) for shares in result["win_rate"].values() for share in shares)
    assert run.by_task() == result["win_rate"]
    assert "task(s)" in refil("evaluate", str(run.path), "--by-task", "--episodes", "5")[0]
    assert refil("plot", str(run.path), "--figure", "tasks_ranked", "--out", str(tmp_path / "tasks.png"))[2] == 0


def test_evaluate_refuses_a_folder_without_models(refil, tmp_path):
    run_dir.create(tmp_path / "run", small())
    _, error, code = refil("evaluate", str(tmp_path / "run"))
    assert code == 2
    assert "has no model yet" in error


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_plot_draws_several_runs(refil, run, tmp_path, ending):
    out = tmp_path / f"curves.{ending}"
    said, _, code = refil("plot", str(run.path), str(run.path), "--labels", "one", "two", "--out", str(out))
    assert code == 0
    assert [line.split(" |")[0] for line in said.splitlines()[2:]] == ["| one", "| two", str(out)]
    assert out.stat().st_size > 1000


def test_runs_that_differ_only_in_where_they_are_have_lines_of_their_own(refil, run, tmp_path):
    for place in ("one", "two"):
        shutil.copytree(run.path, tmp_path / place / "run")
    paths = [str(tmp_path / place / "run") for place in ("one", "two")]
    said, _, code = refil("plot", *paths, "--out", str(tmp_path / "x.png"))
    assert code == 0
    assert [place in line for place, line in zip(("one", "two"), said.splitlines()[2:4], strict=True)] == [True, True]


def test_a_run_counts_once(refil, run, tmp_path):
    twice = [str(run.path), f"{run.path}/../{run.path.name}"]
    _, error, code = refil("plot", *twice, "--labels", "a", "a", "--out", str(tmp_path / "x.png"))
    assert code == 2
    assert "a run is named twice for 'a'" in error


def test_what_was_won_by_models_that_are_gone_is_not_kept(refil, run, monkeypatch):
    times = iter((1, 2))
    monkeypatch.setattr(run_dir.Run, "models_written", lambda self: next(times))
    _, error, code = refil("evaluate", str(run.path), "--by-task", "--episodes", "1")
    assert code == 2
    assert "newer models have come meanwhile" in error


def test_a_figure_of_ones_own(refil, run, tmp_path):
    mine = tmp_path / "mine.py"
    drawing = "from matplotlib.figure import Figure\ndef draw(lines): return Figure()\n"
    mine.write_text(drawing + "def table(lines): return [f'{len(lines)} of mine']")
    said, _, code = refil("plot", str(run.path), "--figure", str(mine), "--out", str(tmp_path / "x.png"))
    assert (code, said.splitlines()[0]) == (0, "1 of mine")


@pytest.mark.parametrize("arguments", [["plot"], ["watch", "--png", "x.png"], ["watch", "--gif", "x.gif"]])
def test_pictures_without_what_draws_them_are_refused_with_advice(refil, run, monkeypatch, arguments):
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "refil.plots"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    _, error, code = refil(arguments[0], str(run.path), *arguments[1:])
    assert code == 2
    assert "pip install 'refil[plot]'" in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--out", "x.jpeg2"], ".png"), (["--labels", "a", "b"], "2 names for 1 runs"), (["--figure", "pie"], "learning_curves")],
)
def test_plot_refuses_what_it_cannot_draw(refil, run, arguments, words):
    _, error, code = refil("plot", str(run.path), *arguments)
    assert code == 2
    assert words in error


@pytest.mark.parametrize(
    ("machine", "before", "after"),
    [
        ("x86_64", "", NO_FMA),
        ("x86_64", "--xla_a=1", f"--xla_a=1 {NO_FMA}"),
        ("x86_64", "--xla_cpu_max_isa=AVX2", "--xla_cpu_max_isa=AVX2"),
        ("arm64", "", ""),
    ],
)
def test_xla_is_told_once_to_round_alike(monkeypatch, machine, before, after):
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setenv("XLA_FLAGS", before)
    disable_fma()
    assert os.environ["XLA_FLAGS"] == after


def test_list_names_methods_and_environments(refil):
    text = refil("list")[0]
    for name in ("refil", "qmix_attention", "vdn_attention", "refil_vdn", "refil_fixed_oracle", "group_matching", "table_1"):
        assert name in text


def test_bench_prints_json_with_the_promised_keys_and_writes_a_trace(refil, tmp_path):
    game = ["--env.agents", "3", "--env.horizon", "6", "--method.size", "8"]
    short = ["--batch", "5", "--steps", "6", "--fold", "--envs", "2", "--buffer", "20", "--repeats", "1", "--json", "--parts"]
    trace = ["--profile", str(tmp_path)]
    result = json.loads(refil("bench", "group_matching", "--method", "vdn_attention", *game, *short, *trace)[0])
    assert list(tmp_path.rglob("*.xplane.pb"))
    speeds = {"env_steps_per_s", "ms_per_update", "train_steps_per_s", "minutes_for_10m", "compile_s", "compile_again_s"}
    parts = {"ms_to_recall", "ms_to_value", "ms_to_blame", "ms_to_change"}
    assert set(result) == speeds | parts | {"replay_bytes", "device", "envs", "seeds"}
    assert all(result[name] > 0 for name in (*speeds, "ms_to_recall", "replay_bytes"))
    assert (result["envs"], result["seeds"]) == (2, 1)


@pytest.mark.parametrize("word", ["--out", "--resume"])
def test_bench_keeps_no_run(refil, word):
    _, error, code = refil("bench", word, "somewhere")
    assert code == 2
    assert f"{word} is an option of refil train" in error


def test_a_sweep_runs_what_is_missing_and_draws_its_figure(refil, tmp_path):
    arguments = ["sweep", "figure_2b_released", "--seeds", "1", "--steps", "60", "--out", str(tmp_path)]
    assert refil(*arguments)[2] == 0
    folders = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert folders == {"refil_fixed_oracle_released", "refil_randomized_oracle_released"}
    metrics = {name: (tmp_path / name / run_dir.METRICS).stat().st_mtime_ns for name in folders}
    assert (tmp_path / "figure_2b_released.png").exists()
    assert refil(*arguments)[2] == 0
    assert metrics == {name: (tmp_path / name / run_dir.METRICS).stat().st_mtime_ns for name in folders}
    _, error, code = refil("sweep", "figure_2b_released", "--seeds", "2", "--steps", "60", "--out", str(tmp_path))
    assert code == 2
    assert "--seeds" in error


def test_a_sweep_takes_finished_runs_that_were_folded_otherwise_but_goes_on_with_none(refil, tmp_path):
    words = ["sweep", "figure_2b_released", "--only", "Fixed", "--seeds", "1", "--out", str(tmp_path)]
    assert refil(*words, "--steps", "60")[2] == 0
    config = tmp_path / "refil_fixed_oracle_released" / run_dir.CONFIG
    usual = config.read_text()
    config.write_text(json.dumps(json.loads(usual) | {"fold": [0.7], "log_every": 7}))
    assert refil(*words, "--steps", "60")[2] == 0
    _, error, code = refil(*words, "--steps", "1000")
    assert code == 2
    assert "other options: --fold, --log-every" in error
    config.write_text(usual)
    assert refil(*words, "--steps", "1000")[2] == 0
    assert run_dir.existing(config.parent).experiment.options.steps == 1000
    _, error, code = refil(*words, "--steps", "60")
    assert code == 2
    assert "other options: --steps" in error


MINE = """
from dataclasses import replace
from tests.tiny_runs import small
def planned():
    return {%s}
def conclude(done, out):
    return "nothing"
"""


def test_a_sweep_begins_with_the_seed_asked_for(refil, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(MINE % "'A': small(seed=5)")
    for seed, seeds in ((None, [5]), (0, [0]), (3, [3])):
        out = tmp_path / str(seed)
        words = ["--steps", "60", "--out", str(out), *(["--seed", str(seed)] if seed is not None else [])]
        assert refil("sweep", str(mine), *words)[2] == 0
        assert run_dir.existing(out / "a").seeds == seeds


def test_a_sweep_takes_no_run_of_another_method(refil, tmp_path):
    mine, words = tmp_path / "mine.py", ["--steps", "60", "--out", str(tmp_path / "out")]
    mine.write_text(MINE % "'A': small('qmix_attention'), 'B': small()")
    assert refil("sweep", str(mine), *words)[2] == 0
    for only in ([], ["--only", "B"]):
        mine.write_text(MINE % "'A': small('refil'), 'B': small()")
        _, error, code = refil("sweep", str(mine), *words, *only)
        assert code == 2
        assert "holds a run with other options: --method" in error


@pytest.mark.parametrize("labels", [("lambda .5", "lambda 5"), ("λ", "a")])
def test_a_sweep_refuses_labels_without_folders_of_their_own(refil, tmp_path, labels):
    mine = tmp_path / "mine.py"
    mine.write_text(MINE % ", ".join(f"'{label}': small()" for label in labels))
    _, error, code = refil("sweep", str(mine), "--out", str(tmp_path / "out"))
    assert code == 2
    assert f"the label '{labels[0]}' needs letters or digits" in error
    assert not (tmp_path / "out").exists()


def test_a_part_of_a_sweep_can_be_run_alone(refil, tmp_path):
    arguments = ["sweep", "figure_2b_released", "--seeds", "1", "--steps", "60", "--out", str(tmp_path)]
    out, _, code = refil(*arguments, "--only", "Fixed", "--envs", "4", "--condense")
    assert code == 0
    asked = run_dir.existing(tmp_path / "refil_fixed_oracle_released").experiment.options
    assert (asked.envs, asked.condense) == (4, True)
    assert "Still to be done: REFIL (Randomized Oracle), released" in out
    assert [path.name for path in tmp_path.iterdir()] == ["refil_fixed_oracle_released"]
    _, error, code = refil(*arguments, "--only", "Loose")
    assert code == 2
    assert "no run of figure_2b_released has 'Loose' in its label; there are REFIL (Fixed Oracle), released" in error


def small_team(env, folder):
    """A run on battles, short ones, whose models have learned nothing."""
    asked = experiment.default(env, "vdn_attention")
    small_net = replace(asked.options.method, size=8, heads=2, memory=4)
    asked = replace(asked, options=replace(asked.options, method=small_net, env=replace(asked.options.env, limit=10)))
    team = run_dir.create(folder, asked)
    models = jax.vmap(asked.build().method.init)(jax.random.split(jax.random.key(0), 2))
    team.save_models(models, [0, 1], asked)
    return team


def test_an_unknown_command_is_refused_with_the_choices(refil):
    _, error, code = refil("tran")
    assert code == 2
    assert "there is no command 'tran'" in error
    assert "train" in error


def test_watch_writes_a_page_of_a_trained_team(refil, run, tmp_path):
    page = tmp_path / "page.html"
    out, _, code = refil("watch", str(run.path), "--html", str(page), "--episodes", "2", "--model", "1")
    assert code == 0
    assert str(page) in out
    assert page.read_text().count("group_matching, ") == 2
    assert "agent 0" in page.read_text()


def test_watch_shows_the_task_asked_for(refil, tmp_path):
    team, page = small_team("3-8sz", tmp_path / "team"), tmp_path / "page.html"
    refil("watch", str(team.path), "--html", str(page), "--episodes", "3", "--task", "2s1z")
    assert page.read_text().count(": 2s1z, ") == 3
    _, error, code = refil("watch", str(team.path), "--html", str(page), "--task", "9z")
    assert code == 2
    assert "3-8sz has no task 9z; it has 3s, 2s1z, " in " ".join(error.split())


def test_watch_refuses_what_is_not_there(refil, run, tmp_path):
    assert "say what to write" in refil("watch", str(run.path))[1]
    assert "has no model of seed 7; it has 0, 1" in refil("watch", str(run.path), "--png", "x.png", "--model", "7")[1]
    assert refil("watch", str(tmp_path), "--png", "x.png")[2] == 2


def test_bench_of_an_environment_alone(refil):
    result = json.loads(refil("bench", "group_matching", "--random", "--envs", "4", "--repeats", "1", "--json")[0])
    assert result["env_steps_per_s"] > 0
    assert result["envs"] == 4


def test_list_prints_the_papers_table_with_parameter_counts(refil):
    out = refil("list", "--methods")[0]
    rows = {
        line.split("│")[1].strip(): [cell.strip() for cell in line.split("│")[2:-1]] for line in out.splitlines() if "│" in line
    }
    assert rows["refil"] == ["REFIL", "yes", "attention", "QMIX", "106,574", "306,304"]
    assert rows["qmix_mean_pooling"] == ["QMIX (Mean Pooling)", "no", "mean pooling", "QMIX", "73,934", "175,744"]
    assert len(rows) >= 14


def test_a_sweep_begins_nothing_that_it_has_no_time_for(refil, tmp_path):
    out, _, code = refil("sweep", "figure_2b", "--out", str(tmp_path), "--seeds", "1", "--steps", "50", "--stop-after", "0.1")
    assert code == 130
    assert "The same command goes on" in out
    assert not list(tmp_path.glob("*/metrics.jsonl"))
