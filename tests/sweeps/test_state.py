"""The state of runs, read from their folders."""

import json
import os

import numpy as np
import pytest

from refil.errors import RefilError
from refil.storage import claims, run_dir
from refil.sweeps import state, table
from tests.tiny_runs import small


def save(run):
    """Write a checkpoint that covers all lines of metrics."""
    run.save_checkpoint({"x": np.zeros(1)}, run.config, 1.0, run.metrics_bytes)


def line(steps, seconds, seed=0, **more):
    return {"seed": seed, "env_steps": steps, "episodes": 1, "updates": 1, "seconds": seconds} | more


@pytest.fixture
def run(tmp_path):
    return run_dir.create(tmp_path / "run", small(steps=1000, seeds=2))


def test_a_run_without_metrics_waits(run):
    assert state.read(run.path) == state.RunState(run.path, "waiting")


def test_a_stopped_run_waits_with_its_slowest_seed_as_progress_and_the_mean_of_win_rates(run):
    for steps, seconds, rate in ((100, 10.0, 0.1), (200, 30.0, 0.2), (400, 40.0, 0.4)):
        run.append_metrics([line(steps, seconds, win_rate=rate), line(steps - 100, seconds, 1, win_rate=rate + 0.2)])
    save(run)
    found = state.read(run.path)
    assert (found.status, found.done) == ("waiting", 0.3)
    assert found.win_rate == pytest.approx(0.5)
    # From step 200 to 400 took 10 s, so that the remaining 600 take 30 s.
    assert found.seconds_left == pytest.approx(30)


def test_a_run_that_trains_is_running_wherever_that_is(run):
    with claims.claimed(run.path, alone=True):
        found = state.read(run.path)
    assert found.status == "running"
    assert "process" in found.note


def test_a_finished_run_has_its_final_win_rate(run):
    for seed, rates in ((0, (0.5, 1.0)), (1, (0.5, 0.5))):
        run.append_metrics([line(steps, 1.0, seed, win_rate=rate) for steps, rate in zip((500, 1000), rates, strict=True)])
    assert state.read(run.path)[1:5] == ("finished", 1.0, 0.75, None)


def test_a_run_whose_last_checkpoint_could_not_be_written_has_failed(run):
    """As on a full disk: metrics up to the last step, but no checkpoint and no model of it."""
    run.append_metrics([line(500, 9.0, seed, win_rate=0.25) for seed in (0, 1)])
    save(run)
    run.append_metrics([line(1000, 18.0, seed, win_rate=0.5) for seed in (0, 1)])
    assert state.read(run.path)[1:4] == ("waiting", 0.5, 0.25)  # it resumes from there
    (run.path / state.ERROR).write_text("No space left on device\n")
    found = state.read(run.path)
    assert (found[1:4], found.note) == (("failed", 0.5, 0.25), "No space left on device")
    save(run)  # what failed came after the last checkpoint, such as the learning curve
    assert state.read(run.path).status == "finished"


def test_a_run_without_any_checkpoint_has_failed_at_its_start(run):
    run.archive_unsaved()
    run.append_metrics([line(1000, 18.0, seed, win_rate=0.5) for seed in (0, 1)])
    assert state.read(run.path) == state.RunState(run.path, "waiting")
    (run.path / state.ERROR).write_text("No space left on device\n")
    assert state.read(run.path)[1::4] == ("failed", "No space left on device")


def test_a_run_that_ended_early_and_whose_checkpoint_was_deleted_is_partial(run):
    run.append_metrics([line(820, 9.0, seed, win_rate=0.25) for seed in (0, 1)])
    found = state.read(run.path)
    assert found == state.RunState(run.path, "partial", 0.82, 0.25, note=state.NO_CHECKPOINT)
    assert table.summary([found]).endswith("0 waiting, 1 partial")


def test_failed_and_damaged_runs_say_why(run):
    (run.path / state.ERROR).write_text("out of luck\n")
    assert state.read(run.path)[1::4] == ("failed", "out of luck")
    (run.path / run_dir.METRICS).write_text("nonsense\n")
    found = state.read(run.path)
    assert found.status == "failed"
    assert "metrics.jsonl, line 1" in found.note


def test_an_edited_win_rate_is_not_shown(run):
    run.append_metrics([line(1000, 1.0, seed, win_rate=0.5) for seed in (0, 1)])
    run.save_checkpoint({"a": np.zeros(1)}, run.config, 1.0, run.metrics_bytes)
    assert state.read(run.path).win_rate == 0.5
    text = (run.path / run_dir.METRICS).read_text()
    (run.path / run_dir.METRICS).write_text(text.replace("0.5", "0.9", 1))
    found = state.read(run.path)
    assert (found.status, found.win_rate) == ("failed", None)
    assert "metrics.jsonl does not match checkpoint.safetensors" in found.note


def test_steps_that_were_changed_since_the_last_save_are_noted(run):
    run.append_metrics([line(1000, 1.0, seed, win_rate=0.5) for seed in (0, 1)])
    run.save_checkpoint({"a": np.zeros(1)}, run.config, 1.0, run.metrics_bytes)
    assert state.read(run.path).note == ""
    run.write_config(run.config.with_options(steps=2000))
    found = state.read(run.path)
    assert (found.status, found.done) == ("waiting", 0.5)
    assert found.note == "train.steps is 2,000, and was 1,000 when the run was last saved"


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_an_error_that_is_no_regular_file_is_not_read(run, tmp_path, kind):
    (tmp_path / "secret").write_text("secret")
    if kind == "fifo":
        os.mkfifo(run.path / state.ERROR)
    else:
        (run.path / state.ERROR).symlink_to(tmp_path / "secret")
    note = state.read(run.path).note
    assert note.endswith({"fifo": "it is a FIFO, not a regular file", "link": "is a symbolic link, which is not read"}[kind])


def test_the_table_has_a_line_for_each_run(run, capsys):
    from rich.console import Console

    (run.path / state.ERROR).write_text("the loss of seed 0 is nan\n")
    run.append_metrics([line(400, 9.0, seed, win_rate=0.25) for seed in (0, 1)])
    save(run)
    Console(width=120).print(table.render([state.read(run.path)], unicode=False))
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].split() == ["run", "failed", "####------", "40%", "25%", "the", "loss", "of", "seed", "0", "is", "nan"]
    assert printed[2].endswith("0 finished, 0 running, 1 failed, 0 waiting")


def test_folders_of_runs_and_runs_are_found(run, tmp_path):
    assert state.find(run.path) == state.find(tmp_path) == [run.path]
    with pytest.raises(RefilError, match="holds no run and no folder of runs"):
        state.find(tmp_path / "missing")


def test_a_config_of_version_0_1_is_understood(run):
    values = {"version": 1, "env": {"name": "group_matching"}, "method": {"name": "refil"}, "steps": 400, "seeds": 1}
    (run.path / run_dir.CONFIG).write_text(json.dumps(values))
    run.append_metrics([line(100, 9.0)])
    assert state.read(run.path).done == 0.25
