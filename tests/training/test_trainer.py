"""Training as a whole, in this process."""

import itertools
import json
import math
import shutil
import threading
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from refil.errors import RefilError
from refil.storage import loggers, run_dir, serialization
from refil.storage.progress import NoProgress
from refil.training import config, trainer
from refil.training.replay import compression, update
from tests.tiny_runs import small


def trained(path, **changes) -> run_dir.RunDir:
    asked = small(**changes)
    run = run_dir.create(path, asked)
    assert trainer.train(asked, run).finished
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> run_dir.RunDir:
    return trained(tmp_path_factory.mktemp("train") / "run", seeds=2)


def without_time(run: run_dir.RunDir) -> list[dict]:
    return [{name: value for name, value in line.items() if name != "seconds"} for line in run.metrics()]


def test_lines_of_metrics_are_complete(run):
    lines = run.metrics()
    always = {"seed", "env_steps", "episodes", "updates", "epsilon", "seconds"}
    always |= {"loss", "td_loss", "imagined_loss", "target_variance", "gradient_norm"}
    at_evaluations = {"win_rate", "return_mean", "length_mean", "won_length_mean"}
    assert all(set(line) in (always, always | at_evaluations) for line in lines)
    assert {line["seed"] for line in lines} == {0, 1}
    for seed in (0, 1):
        mine = [line for line in lines if line["seed"] == seed]
        assert mine[0]["loss"] is None  # nothing learned yet
        assert all(line["loss"] > 0 for line in mine[1:])
        assert [line["env_steps"] for line in mine] == sorted({line["env_steps"] for line in mine})
        assert "win_rate" in mine[0]
        for line in mine:
            if "win_rate" in line:  # without a won episode they have no length
                assert (line["won_length_mean"] is None) == (line["win_rate"] == 0)
        assert "win_rate" in mine[-1]
        evaluated = [line["env_steps"] for line in mine if "win_rate" in line]
        assert all(later - earlier >= 60 for earlier, later in itertools.pairwise(evaluated[:-1]))


def test_there_is_a_model_per_seed(run):
    assert run.seeds == [0, 1]


def test_the_same_config_writes_the_same_bytes(run, tmp_path):
    again = trained(tmp_path / "again", seeds=2)
    assert without_time(again) == without_time(run)
    assert_same_models(again, run)


def test_resuming_a_finished_run_changes_no_file(run):
    run.write_by_task(4, {"a": [1, 2]})
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}
    assert trainer.train(small(seeds=2), run, resume=True).finished
    assert {path.name: path.read_bytes() for path in run.path.iterdir()} == before


def test_missing_models_of_a_finished_run_are_written_again(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    other = run_dir.open_run(tmp_path / "run")
    (other.path / "model_seed_1.safetensors").unlink()
    assert trainer.train(small(seeds=2), other, resume=True).finished
    assert_same_models(other, run)


def test_models_of_another_run_in_the_folder_of_a_finished_one_are_replaced(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    other = run_dir.open_run(tmp_path / "run")
    shutil.copy(other.path / "model_seed_0.safetensors", other.path / "model_seed_1.safetensors")
    assert trainer.train(small(seeds=2), other, resume=True).finished
    assert_same_models(other, run)


def test_a_start_without_a_checkpoint_is_archived_and_trained_again(run, tmp_path):
    other = run_dir.create(tmp_path / "run", small(seeds=2))
    other.archive_unsaved()
    other.append_metrics(run.metrics()[:3])
    (other.path / "model_seed_1.safetensors").write_bytes(b"earlier")
    messages = Messages()
    assert trainer.train(small(seeds=2), other, resume=True, progress=messages).finished
    assert (other.path / "aborted_1" / "model_seed_1.safetensors").read_bytes() == b"earlier"
    assert len((other.path / "aborted_1" / run_dir.METRICS).read_text().splitlines()) == 3
    assert str(other.path / "aborted_1") in messages.found[0]
    assert without_time(other) == without_time(run)


def test_a_stopped_run_resumes_bit_identically(run, tmp_path):
    asked = small(seeds=2)
    other = run_dir.create(tmp_path / "run", asked)
    assert not trainer.train(asked, other, should_stop=lambda: True).finished
    assert trainer.train(asked, other, resume=True).finished
    assert without_time(other) == without_time(run)
    assert_same_models(other, run)


@pytest.mark.parametrize("compact", [pytest.param(False, marks=pytest.mark.slow), True])
def test_compact_and_full_checkpoints_resume_bit_identically(run, tmp_path, compact):
    asked = small(seeds=2, compact_checkpoints=compact)
    other = run_dir.create(tmp_path / "run", asked)
    assert trainer.train(asked.with_options(steps=100), other).finished
    assert other.num_uncompressed == (0 if compact else None)
    assert ((other.path / run_dir.CHECKPOINT).stat().st_size < (run.path / run_dir.CHECKPOINT).stat().st_size) == compact
    assert trainer.train(asked, other, resume=True).finished
    assert_same_models(other, run)


@pytest.mark.slow
def test_episodes_that_do_not_come_back_are_stored_uncompressed(run, tmp_path, monkeypatch):
    def decompress(*arguments):
        played = original(*arguments)
        return replace(played, won=played.won.at[1, 2].set(~played.won[1, 2]))

    original = compression.decompress
    monkeypatch.setattr(compression, "decompress", decompress)
    monkeypatch.setattr(compression, "SLOT_MULTIPLE", 2)
    asked = small(seeds=2, compact_checkpoints=True)
    other = run_dir.create(tmp_path / "run", asked)
    assert trainer.train(asked.with_options(steps=100), other).finished
    assert other.num_uncompressed == 2
    assert trainer.train(asked, other, resume=True).finished
    assert_same_models(other, run)


def assert_same_models(one: run_dir.RunDir, other: run_dir.RunDir) -> None:
    for seed in (0, 1):
        ours, theirs = (load_file(each.path / f"model_seed_{seed}.safetensors") for each in (one, other))
        assert ours.keys() == theirs.keys()
        assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)


class Messages(NoProgress):
    """Collects messages for the user."""

    def __init__(self) -> None:
        self.found = []

    def message(self, text: str) -> None:
        self.found.append(text)


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_training_and_keeps_the_checkpoint(tmp_path, monkeypatch):
    asked = small(seeds=1)
    run = trained(tmp_path / "run", seeds=1)
    before = {path.name: path.read_bytes() for path in run.path.glob("*.safetensors")}
    # Within a few updates this learning rate takes the parameters beyond float32.
    original = update.rmsprop
    monkeypatch.setattr(update, "rmsprop", lambda lr, max_grad_norm: original(1e30, max_grad_norm))
    with pytest.raises(RefilError, match=r"loss of seed 0 is (nan|inf).*is intact.*below 0.0005|not finite"):
        trainer.train(asked.with_options(steps=2000), run, resume=True)
    assert {path.name: path.read_bytes() for path in run.path.glob("*.safetensors")} == before
    assert all(line["loss"] is None or math.isfinite(line["loss"]) for line in run.metrics())


@pytest.mark.slow
def test_tensorboard_gets_every_number(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    asked = small(seeds=1, tensorboard=True)
    run = run_dir.create(tmp_path / "run", asked)
    with ExitStack() as stack:
        trainer.train(asked, run, loggers=loggers.open_loggers(asked, run.path, stack))
    events = EventAccumulator(str(run.path / "tensorboard" / "seed_0"))
    events.Reload()
    tags = set(events.Tags()["tensors"]) | set(events.Tags()["scalars"])
    assert {"loss", "win_rate", "epsilon", "updates"} <= tags
    lines = [line for line in run.metrics() if "win_rate" in line]
    assert [event.step for event in events.Scalars("win_rate")] == [line["env_steps"] for line in lines]


def test_metrics_are_plain_json(run):
    text = (run.path / run_dir.METRICS).read_text()
    assert len([json.loads(line) for line in text.splitlines()]) == len(run.metrics())
    assert "NaN" not in text


def test_a_model_file_carries_the_config(run):
    from safetensors import safe_open

    with safe_open(run.path / "model_seed_0.safetensors", framework="numpy") as file:
        metadata = json.loads(file.metadata()[serialization.FORMAT])
        assert json.loads(metadata["config"])["env"]["agents"] == 3
        assert np.isfinite(file.get_tensor("utility.encoder.embed.weight")).all()


@pytest.mark.slow
def test_training_continues_during_a_save(tmp_path, monkeypatch):
    at = []

    def save(self, *arguments):
        at.append([len(run.metrics())])
        if len(at) == 1:
            assert continued.wait(60)
        saved(self, *arguments)
        at[-1].append(len(run.metrics()))

    def append(self, lines):
        appended(self, lines)
        if at:
            continued.set()

    continued, saved, appended = threading.Event(), run_dir.RunDir.save_checkpoint, run_dir.RunDir.append_metrics
    monkeypatch.setattr(run_dir.RunDir, "save_checkpoint", save)
    monkeypatch.setattr(run_dir.RunDir, "append_metrics", append)
    asked = small(seeds=1, save_every=0.0, steps=2000)
    run = run_dir.create(tmp_path / "run", asked)
    assert trainer.train(asked, run).finished
    assert at[0][1] > at[0][0]


@pytest.mark.slow
def test_a_save_reads_no_source_and_writes_models_first(tmp_path, monkeypatch):
    """A user's file may change during training; and a checkpoint of a finished run implies its models."""
    mine = tmp_path / "mine.py"
    mine.write_text('"""Mine."""\nfrom tests.tiny_envs import Config, build\n')
    asked = replace(small(), env=config.default(str(mine), "refil").env)
    run, saved, seen = run_dir.create(tmp_path / "run", asked), run_dir.RunDir.save_checkpoint, []

    def save(self, *arguments):
        seen.append(self.seeds)
        saved(self, *arguments)

    def append(self, lines):
        mine.write_text("not Python any more")
        appended(self, lines)

    appended = run_dir.RunDir.append_metrics
    monkeypatch.setattr(run_dir.RunDir, "save_checkpoint", save)
    monkeypatch.setattr(run_dir.RunDir, "append_metrics", append)
    assert trainer.train(asked, run).finished
    assert seen == [[0]]


def test_a_state_larger_than_the_memory_is_refused(tmp_path):
    asked = small(buffer=10**9)
    run = run_dir.create(tmp_path / "run", asked)
    with pytest.raises(
        RefilError, match=r"needs [\d,.]+ GB of memory where [\d,.]+ GB are available; reduce algorithm\.buffer$"
    ):
        trainer.train(asked, run)
    assert not (run.path / run_dir.METRICS).exists()


def test_a_failed_save_ends_training(tmp_path, monkeypatch):
    def save(self, *arguments):
        raise RefilError("the disk is full")

    monkeypatch.setattr(run_dir.RunDir, "save_checkpoint", save)
    asked = small(seeds=1, save_every=0.0, steps=2000)
    run = run_dir.create(tmp_path / "run", asked)
    with pytest.raises(RefilError, match="the disk is full"):
        trainer.train(asked, run)
    assert run.metrics()[-1]["env_steps"] < 2000
