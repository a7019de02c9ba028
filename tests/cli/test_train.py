"""`refil train` in its own process: killed, stopped, resumed, and given bad arguments."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from refil import settings
from refil.cli import _flags
from refil.cli.train import BASELINES, non_default_flags
from refil.training import config as configs
from tests.tiny_runs import small

REFIL = [sys.executable, "-m", "refil"]
TINY = [
    *("--env.agents", "3", "--env.cells", "3", "--env.horizon", "6"),
    *("--method.size", "8", "--method.heads", "2", "--method.mixing", "4"),
    *("--batch", "5", "--pack", "--envs", "2", "--buffer", "20", "--seeds", "2"),
    *("--eval-every", "600", "--eval-episodes", "4", "--log-every", "20", "--save-every", "0.01"),
]
STEPS = "9000"  # trains for seconds, so that a test can interrupt it


def refil(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess:
    return subprocess.run([*REFIL, *arguments], capture_output=True, text=True, timeout=timeout)


def changed_tiny(*options: str) -> list[str]:
    """Return the options of tiny runs and these, which replace those of the same name with one value."""
    replaced = {TINY.index(each) for each in options if each in TINY}
    return [*(each for number, each in enumerate(TINY) if not {number, number - 1} & replaced), *options]


def contents(path: Path) -> dict[str, object]:
    """Return what must not depend on interruptions."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    models = {file.name: file.read_bytes() for file in path.glob("model_*")}
    return models | {"metrics": [{name: line[name] for name in line if name != "seconds"} for line in lines]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that nothing interrupted."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    done = refil("train", *TINY, "--steps", STEPS, "--out", str(path))
    assert done.returncode == 0, done.stderr
    return path


def test_a_run_ends_with_a_figure_a_summary_and_next_steps(whole, tmp_path):
    again = ["--config", str(whole / "config.json"), "--steps", "100", "--replay", "--out", str(tmp_path / "again")]
    done = refil("train", *again)
    assert done.returncode == 0, done.stderr
    assert f"Page: {tmp_path / 'again' / 'replay.html'}" in done.stdout
    assert "<html" in (tmp_path / "again" / "replay.html").read_text()
    assert "refil on group_matching: 2 seeds, 100 steps each" in done.stdout
    assert "Final win rate of the greedy policy (mean over the last 10 % of each seed's steps): " in done.stdout
    assert "min to max of 2 seeds)." in done.stdout
    assert f"refil evaluate {tmp_path / 'again'}" in done.stdout
    assert (tmp_path / "again" / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert "compiling" in done.stderr
    assert "compiled after" in done.stderr
    assert "100%  100 of 100 steps" in done.stderr
    (other,) = (line.split() for line in done.stdout.splitlines() if "--method qmix_attention" in line)
    assert "--env.agents 3 --env.cells 3" in " ".join(other)
    assert refil("train", *other[2:], "--help").returncode == 0


def test_suggestions_keep_the_options_that_the_other_method_has():
    config = small(seeds=2).with_options(method_options={"recurrent": True, "groups": 3})
    flags = non_default_flags(config, "qmix_attention")
    assert "--seeds 2" in flags
    assert "--method.recurrent" in flags
    assert not any("groups" in flag for flag in flags)
    assert "--method.groups 3" in non_default_flags(config, "refil_vdn")


def test_a_page_needs_an_environment_that_can_be_shown(tmp_path):
    done = refil("train", "tests/tiny_envs.py", "--method", "vdn_attention", "--replay", "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "--replay needs an environment that can be shown" in done.stderr
    assert not (tmp_path / "run").exists()


def test_suggestions_name_a_method_of_the_same_algorithm():
    assert {configs.algorithm_name(method) for method in BASELINES["onpolicy"]} == {"onpolicy"}
    assert {configs.algorithm_name(method) for method in BASELINES["replay"]} == {"replay"}


@pytest.mark.slow
def test_a_run_killed_repeatedly_ends_with_the_same_bytes(whole, tmp_path):
    path = tmp_path / "killed"
    first = [*REFIL, "train", *TINY, "--steps", STEPS, "--out", str(path)]
    again = [*REFIL, "train", "--resume", str(path)]
    kills = 0
    for seconds_after_start, command in ((0.5, first), (0.0, again), (1.0, again)):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 90
        lines_before = lines(path)
        while lines(path) <= lines_before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(seconds_after_start)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills >= 2
    done = refil("train", "--resume", str(path))
    assert done.returncode == 0, done.stderr
    assert contents(path) == contents(whole)


def lines(path: Path) -> int:
    return (path / "metrics.jsonl").read_text().count("\n") if (path / "metrics.jsonl").exists() else 0


def start(path: Path, *options: str) -> subprocess.Popen:
    """Start a run and wait for its first line of metrics."""
    command = [*REFIL, "train", *changed_tiny(*options), "--out", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not lines(path) and process.poll() is None:
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_ctrl_c_and_a_closed_terminal_save_and_say_how_to_resume(whole, tmp_path, number):
    path = tmp_path / "stopped"
    process = start(path, "--steps", STEPS)
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert f"refil train --resume {path}" in output
    assert "again to stop without saving" in errors
    assert refil("train", "--resume", str(path)).returncode == 0
    assert contents(path) == contents(whole)


@pytest.mark.slow
def test_a_second_ctrl_c_stops_at_once_and_the_run_resumes(whole, tmp_path):
    path = tmp_path / "stopped"
    process = start(path, "--steps", STEPS, "--save-every", "1000")
    process.send_signal(signal.SIGSTOP)  # so that both signals arrive before training reacts to the first
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "refil: stopped without saving" in errors
    assert "Traceback" not in errors
    assert refil("train", "--resume", str(path)).returncode == 0
    assert contents(path)["metrics"] == contents(whole)["metrics"]


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.3, 3.0])
def test_a_signal_before_the_first_step_ends_the_process_without_a_traceback(tmp_path, seconds):
    command = [*REFIL, "train", *TINY, "--steps", "1000000", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopp" in errors.lower()
    assert "Traceback" not in errors


@pytest.mark.slow
def test_a_run_whose_stderr_is_closed_or_has_no_reader_finishes(whole, tmp_path):
    run = [*REFIL, "train", "--config", str(whole / "config.json")]
    closed = subprocess.run(["sh", "-c", '"$@" 2>&-', "sh", *run, "--out", str(tmp_path / "closed")], stdout=subprocess.DEVNULL)
    reader, writer = os.pipe()
    os.close(reader)
    unread = subprocess.run([*run, "--out", str(tmp_path / "unread")], stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    assert (closed.returncode, unread.returncode) == (0, 0)
    assert contents(tmp_path / "closed") == contents(tmp_path / "unread") == contents(whole)


@pytest.mark.slow
def test_a_killed_run_continues_its_tensorboard_curves(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    path = tmp_path / "killed"
    process = start(path, "--steps", STEPS, "--tensorboard", "--save-every", "0.005")
    while not (path / "checkpoint.safetensors").exists() and process.poll() is None:
        time.sleep(0.02)
    time.sleep(1.5)  # longer than TensorBoard's events wait to be written
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    done = refil("train", "--resume", str(path), "--steps", "10000")
    assert done.returncode == 0, done.stderr
    metrics = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    for seed in (0, 1):
        events = EventAccumulator(str(path / "tensorboard" / f"seed_{seed}"), {"scalars": 0})
        events.Reload()
        steps = [line["env_steps"] for line in metrics if line["seed"] == seed]
        assert [event.step for event in events.Scalars("epsilon")] == steps


@pytest.mark.slow
def test_two_processes_cannot_train_in_one_folder(tmp_path):
    path = tmp_path / "shared"
    first = subprocess.Popen([*REFIL, "train", *TINY, "--steps", "1000000", "--out", str(path)], stderr=subprocess.DEVNULL)
    try:
        while not (path / "config.json").exists() and first.poll() is None:
            time.sleep(0.05)
        for arguments in (["train", "--resume", str(path)], ["train", *TINY, "--out", str(path)]):
            second = refil(*arguments)
            assert second.returncode == 2
            assert "another process is training in" in second.stderr
    finally:
        first.kill()
        first.wait()


@pytest.mark.slow
def test_a_finished_run_can_be_given_more_steps(whole, tmp_path):
    path = tmp_path / "longer"
    assert refil("train", *TINY, "--steps", "1000", "--out", str(path)).returncode == 0
    done = refil("train", "--resume", str(path), "--steps", STEPS)
    assert done.returncode == 0, done.stderr
    models = {name: content for name, content in contents(path).items() if name.startswith("model")}
    assert models == {name: content for name, content in contents(whole).items() if name.startswith("model")}


def test_fewer_steps_than_already_trained_are_refused(whole):
    before = (whole / "config.json").read_bytes()
    done = refil("train", "--resume", str(whole), "--steps", "1000")
    assert done.returncode == 2
    assert "--steps 1000 is less than the 90" in done.stderr
    assert (whole / "config.json").read_bytes() == before


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 0xFF
    path.write_bytes(bytes(content))


def replace_by_text(path: Path) -> None:
    path.write_text("not a checkpoint")


@pytest.mark.parametrize("damage", [truncate, flip, replace_by_text])
def test_a_damaged_checkpoint_is_refused_and_nothing_is_touched(whole, tmp_path, damage):
    path = tmp_path / "run"
    path.mkdir()
    for file in whole.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    damage(path / "checkpoint.safetensors")
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    done = refil("train", "--resume", str(path), "--steps", "10000")
    assert done.returncode == 2
    assert "checkpoint.safetensors" in done.stderr
    assert "Traceback" not in done.stderr
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([""], ["ENV needs a value"]),
        (["--lr", "inf"], ["--lr must be a finite number, not inf"]),
        (["--out", "a", "--out", "b"], ["--out is given twice"]),
        (["--buffer", "100000000"], ["GB of memory where", "reduce --buffer"]),
        (["--seeds", "1000000"], ["GB of memory where", "reduce --seeds"]),
        (["--batch", "4000000", "--buffer", "4000000"], ["GB of memory where", "reduce --batch"]),
        (["nowhere"], ["unknown environment 'nowhere'", "group_matching"]),
        (["missing.py"], ["there is no file", "/missing.py"]),
        (["--method", "qmax"], ["unknown method 'qmax'", "qmix_attention"]),
        (["--method"], ["--method needs a value"]),
        (["--stepz", "5"], ["--stepz"]),
        (["--method.lambda", "5"], ["--method.lambda"]),
        (["--steps", "many"], ["many"]),
        (["--steps", "-5"], ["--steps must be from 1 to 1,000,000,000, not -5"]),
        (["--seed", "2147483648"], ["--seed must be from 0 to 1,000,000,000, not 2147483648"]),
        (["--steps", "49"], ["--steps 49 is less than one episode (50 steps)"]),
        (["--seeds", "0"], ["--seeds must be from 1 to 1,000,000,000, not 0"]),
        (["--env.agents", "0"], ["--env.agents must be from 1 to 1,000,000,000, not 0"]),
        (["--env.groups", "9"], ["--env.groups 9 is more than --env.agents 8"]),
        (["--env.random-actions", "1.5"], ["--env.random-actions must be from 0 to 1, not 1.5"]),
        (["--method.imagined-weight", "2"], ["--method.imagined-weight must be from 0 to 1, not 2"]),
        (["--method.size", "30"], ["--method.size 30 must be a multiple of --method.heads 4"]),
        (["--method.mixer", "sum"], ["sum", "attention", "linear"]),
        (["--batch", "3000"], ["--batch 3000 is larger than --buffer 2000"]),
        (["--config", "nothing.json"], ["cannot read nothing.json"]),
        (["--resume", "nothing"], ["nothing holds no run"]),
        (["group_matching", "--resume", "nothing"], ["--resume takes everything from the run's folder; omit group_matching"]),
        (["--resume", "nothing", "--init-from", "a"], ["--resume takes everything from the run's folder; omit --init-from a"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_is_named_and_writes_nothing(arguments, words, tmp_path, capsys, monkeypatch):
    from refil.__main__ import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["refil", "train", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    said = capsys.readouterr()
    for word in words:
        assert word in " ".join((said.err + said.out).split())
    assert list(tmp_path.iterdir()) == []


def test_a_run_cannot_be_resumed_with_other_method_options(whole, tmp_path):
    done = refil("train", "--resume", str(whole), "--method.groups", "3")
    assert done.returncode == 2
    assert "cannot resume with --method.groups 3 instead of 2; only --steps, " in done.stderr


def test_a_run_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("precious")
    done = refil("train", *TINY, "--steps", "100", "--out", str(tmp_path / "file"))
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert (tmp_path / "file").read_text() == "precious"


def test_help_shows_every_option_of_the_method_and_environment():
    text = refil("train", "--method", "refil_fixed_oracle", "--help").stdout
    flags = settings.flags(configs.default("group_matching", "refil_fixed_oracle"))
    assert {"env.cells", "method.forget_groups", "train.steps"} <= set(flags)
    names = [flag for path, flag in flags.items() if path not in _flags.NAMES and not path.endswith("sha256")]
    missing = [flag for flag in [*names, "--method", "--config", "--resume", "--init-from", "--trust"] if flag not in text]
    assert not missing


def test_training_does_not_start_from_a_team_that_can_only_act(tmp_path):
    done = refil("train", "3-8sz", "--init-from", "3-8csz-refil", "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert done.stderr.startswith(
        "refil: --init-from 3-8csz-refil is a team that can only act: it was shipped without its mixing"
    )
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_starts_from_the_weights_of_another(whole, tmp_path):
    path = tmp_path / "next"
    few = ["--batch", "20", "--steps", "12"]  # too few episodes for an update
    done = refil("train", "--config", str(whole / "config.json"), *few, "--init-from", str(whole), "--out", str(path))
    assert done.returncode == 0, done.stderr
    weights = [load_file(folder / name) for folder, name in ((whole, "model_seed_0.safetensors"), (path, "init.safetensors"))]
    weights += [load_file(path / f"model_seed_{seed}.safetensors") for seed in range(2)]
    for name, value in weights[0].items():
        assert all((other[name] == value).all() for other in weights)
    again = refil("train", "--config", str(path / "config.json"), "--out", str(tmp_path / "random"))
    assert f"add --init-from {path / 'init.safetensors'}" in again.stdout
    refused = refil("train", *changed_tiny("--method.size", "16"), "--init-from", str(whole), "--out", str(tmp_path / "other"))
    assert refused.returncode == 2
    assert "cannot start from these weights" in refused.stderr
    assert not (tmp_path / "other").exists()
