"""`refil sweep`."""

import json
import sys

import pytest

from refil.storage import run_dir

MINE = """
from tests.tiny_runs import small
def runs():
    return {%s}
def report(done, out):
    return "nothing"
"""


def test_missing_runs_are_run_once_and_the_figure_is_drawn(refil, tmp_path):
    arguments = ["sweep", "figure_3b_released", "--seeds", "1", "--steps", "60", "--out", str(tmp_path)]
    assert refil(*arguments)[2] == 0
    folders = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert folders == {"refil_fixed_oracle_released", "refil_randomized_oracle_released"}
    metrics = {name: (tmp_path / name / run_dir.METRICS).stat().st_mtime_ns for name in folders}
    assert (tmp_path / "figure_3b_released.png").exists()
    assert refil(*arguments)[2] == 0
    assert metrics == {name: (tmp_path / name / run_dir.METRICS).stat().st_mtime_ns for name in folders}
    _, error, code = refil("sweep", "figure_3b_released", "--seeds", "2", "--steps", "60", "--out", str(tmp_path))
    assert code == 2
    assert "--seeds" in error


@pytest.mark.slow
def test_finished_runs_with_other_packing_are_accepted_but_not_resumed(refil, tmp_path):
    mine, words = tmp_path / "mine.py", ["--out", str(tmp_path / "out")]
    mine.write_text(MINE % "'A': small()")
    assert refil("sweep", str(mine), *words, "--steps", "60")[2] == 0
    config = tmp_path / "out" / "a" / run_dir.CONFIG
    usual = config.read_text()
    values = json.loads(usual)
    values["algorithm"]["pack"], values["output"]["log_every"] = [0.7], 7
    config.write_text(json.dumps(values))
    kept = tmp_path / "kept"  # a published run has neither a checkpoint nor models, which would contradict the config
    kept.mkdir()
    for path in config.parent.glob("*.safetensors"):
        path.rename(kept / path.name)
    assert refil("sweep", str(mine), *words, "--steps", "60")[2] == 0
    _, error, code = refil("sweep", str(mine), *words, "--steps", "300")
    assert code == 2
    assert "other options: --pack;" in error
    config.write_text(usual)
    for path in kept.iterdir():
        path.rename(config.parent / path.name)
    assert refil("sweep", str(mine), *words, "--steps", "300")[2] == 0
    assert run_dir.open_run(config.parent).config.train.steps == 300
    _, error, code = refil("sweep", str(mine), *words, "--steps", "60")
    assert code == 2
    assert "other options: --steps" in error


@pytest.mark.slow
def test_the_first_seed_can_be_changed(refil, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(MINE % "'A': small(seed=5)")
    for seed, seeds in ((None, [5]), (0, [0]), (3, [3])):
        out = tmp_path / str(seed)
        words = ["--steps", "60", "--out", str(out), *(["--seed", str(seed)] if seed is not None else [])]
        assert refil("sweep", str(mine), *words)[2] == 0
        assert run_dir.open_run(out / "a").seeds == seeds


@pytest.mark.slow
def test_a_folder_with_a_run_of_another_method_is_refused(refil, tmp_path):
    mine, words = tmp_path / "mine.py", ["--steps", "60", "--out", str(tmp_path / "out")]
    mine.write_text(MINE % "'A': small('qmix_attention'), 'B': small()")
    assert refil("sweep", str(mine), *words)[2] == 0
    mine.write_text(MINE % "'A': small('refil'), 'B': small()")
    for only in ([], ["--only", "B"]):
        _, error, code = refil("sweep", str(mine), *words, *only)
        assert code == 2
        assert "holds a run with other options: --method" in error


@pytest.mark.parametrize("labels", [("lambda .5", "lambda 5"), ("λ", "a")])
def test_labels_that_give_the_same_folder_are_refused(refil, tmp_path, labels):
    mine = tmp_path / "mine.py"
    mine.write_text(MINE % ", ".join(f"'{label}': small()" for label in labels))
    _, error, code = refil("sweep", str(mine), "--out", str(tmp_path / "out"))
    assert code == 2
    assert f"the label '{labels[0]}' must differ from the others" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_part_of_the_runs_can_be_chosen(refil, tmp_path):
    mine, out = tmp_path / "mine.py", tmp_path / "out"
    mine.write_text(MINE % "'REFIL, fixed': small(), 'REFIL, free': small()")
    arguments = ["sweep", str(mine), "--steps", "60", "--out", str(out)]
    printed, _, code = refil(*arguments, "--only", "fixed", "--envs", "4", "--compact-checkpoints")
    assert code == 0
    config = run_dir.open_run(out / "refil_fixed").config
    assert (config.train.envs, config.output.compact_checkpoints) == (4, True)
    assert "Still to run: REFIL, free" in printed
    assert [path.name for path in out.iterdir()] == ["refil_fixed"]
    _, error, code = refil(*arguments, "--only", "loose")
    assert code == 2
    assert "has 'loose' in its label; available: REFIL, fixed, REFIL, free" in error


def test_no_run_is_started_with_too_little_time_left(refil, tmp_path):
    out, _, code = refil("sweep", "figure_3b", "--out", str(tmp_path), "--seeds", "1", "--steps", "50", "--stop-after", "0.1")
    assert code == 130
    assert "The same command resumes" in out
    assert not list(tmp_path.glob("*/metrics.jsonl"))


FAILING = """
from tests.tiny_runs import small
def runs():
    return {"A": small(steps=3), "B": small(steps=60)}
def report(done, out):
    return "nothing"
"""


@pytest.mark.slow
def test_a_run_that_fails_is_reported_and_the_others_are_trained(refil, tmp_path):
    mine, out = tmp_path / "mine.py", tmp_path / "out"
    mine.write_text(FAILING)
    printed, _, code = refil("sweep", str(mine), "--out", str(out), "--slots", "2")
    assert code == 1
    assert "1 of 2 runs failed; the same command tries them again: refil sweep" in printed
    assert "A: --steps 3 is less than one episode (6 steps)" in printed
    printed, _, code = refil("status", str(out))
    assert code == 0
    lines = {line.split()[0]: line for line in printed.splitlines()}
    assert "failed" in lines["a"]
    assert "less than one episode" in printed
    assert "finished" in lines["b"]
    assert "1 finished, 0 running, 1 failed, 0 waiting" in printed


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs limits of file sizes")
def test_a_run_that_cannot_save_has_failed_wherever_one_looks(refil, tmp_path):
    """Files are limited to a size that metrics do not reach and models do, as on a full disk."""
    import resource

    mine, out = tmp_path / "mine.py", tmp_path / "out"
    mine.write_text(MINE % "'A': small(steps=60)")
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, usual[1]))  # of the run's process too
    try:
        printed, _, code = refil("sweep", str(mine), "--out", str(out))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert code == 1
    assert "1 of 1 runs failed; the same command tries them again: refil sweep" in printed
    assert (out / "a" / run_dir.UNSAVED).exists()
    assert json.loads((out / "a" / run_dir.METRICS).read_text().splitlines()[-1])["env_steps"] >= 60
    shown = refil("status", str(out))[0]
    assert "0 finished, 0 running, 1 failed, 0 waiting" in shown
    assert (out / "a" / "error.txt").read_text().strip() in " ".join(shown.split())
    assert refil("sweep", str(mine), "--out", str(out))[2] == 0
    assert "1 finished, 0 running, 0 failed, 0 waiting" in refil("status", str(out))[0]


def test_a_plan_writes_nothing(refil, tmp_path):
    printed, _, code = refil("sweep", "figure_3b", "--out", str(tmp_path / "out"), "--dry-run", "--slots", "3", "--gpus", "0")
    assert code == 0
    assert "QMIX (Attention)           1,000,000 steps, 24 seeds" in printed
    assert "4 of 4 runs to train, 3 at the same time" in printed
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--gpus", "99"), "--gpus 99 asks for more GPUs than there are"),
        (("--ray", "127.0.0.1:1"), "there is no Ray cluster at 127.0.0.1:1"),
        (("--ray", "auto", "--slurm"), "choose one of --ray and --slurm"),
        (("--slurm-options", "time=60"), "--slurm-options needs --slurm"),
    ],
)
def test_machines_that_are_not_there_are_refused_before_anything_is_written(refil, tmp_path, words, error):
    if "127.0.0.1:1" in words:
        pytest.importorskip("ray", reason="needs the extra 'ray'")
    _, errors, code = refil("sweep", "figure_3b", "--out", str(tmp_path / "out"), *words)
    assert code == 2
    assert errors.startswith(f"refil: {error}")
    assert errors.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["sweep", "report"])
def test_a_missing_experiment_is_asked_for_in_one_sentence_with_the_choices(refil, command):
    _, errors, code = refil(command)
    assert code == 2
    assert errors.startswith("refil: give the experiment to ")
    assert ": figure_3a, figure_3b, figure_3b_released, figure_4, " in errors
    assert errors.count("\n") == 1


def test_several_parts_of_labels_can_be_chosen(refil, tmp_path):
    words = ["sweep", "--only", "REFIL on 3-8sz", "--only", "QTRAN", "figure_4", "--dry-run", "--gpus", "0"]
    printed, _, code = refil(*words, "--out", str(tmp_path / "out"))
    assert code == 0
    labels = [line.split("  ")[0] for line in printed.splitlines()[:-1]]
    assert labels == ["REFIL on 3-8sz", *(f"QTRAN (Attention) on {env}" for env in ("3-8sz", "3-8csz", "3-8MMM"))]
    _, error, code = refil(*words, "--only", "nothing")
    assert code == 2
    assert "no run of figure_4 has 'nothing' in its label; available: REFIL on 3-8sz" in error


def test_an_unknown_experiment_is_refused_with_the_closest_name(refil, tmp_path):
    _, errors, code = refil("sweep", "figure_3")
    assert code == 2
    assert "unknown experiment 'figure_3'; did you mean 'figure_" in errors
