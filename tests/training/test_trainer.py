"""TrainState as a whole, in this process."""

import itertools
import json
import math
import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest

from refil.errors import RefilError
from refil.storage import run_dir, serialization
from refil.training import config, trainer
from refil.training.replay import compression
from tests.tiny_runs import small


def trained(path, **changes) -> run_dir.Run:
    asked = small(**changes)
    run = run_dir.create(path, asked)
    assert trainer.run(asked, run)
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> run_dir.Run:
    return trained(tmp_path_factory.mktemp("train") / "run", seeds=2)


def without_time(run: run_dir.Run) -> list[dict]:
    return [{name: value for name, value in line.items() if name != "seconds"} for line in run.metrics()]


def test_lines_have_what_they_should(run):
    lines = run.metrics()
    always = {"seed", "env_steps", "episodes", "updates", "epsilon", "seconds"}
    always |= {"loss", "td_loss", "imagined_loss", "target_variance", "gradient_norm"}
    at_evaluations = {"win_rate", "return_mean", "length_mean"}
    assert all(set(line) in (always, always | at_evaluations) for line in lines)
    assert {line["seed"] for line in lines} == {0, 1}
    for seed in (0, 1):
        mine = [line for line in lines if line["seed"] == seed]
        assert mine[0]["loss"] is None  # nothing learned yet
        assert all(line["loss"] > 0 for line in mine[1:])
        assert [line["env_steps"] for line in mine] == sorted({line["env_steps"] for line in mine})
        assert "win_rate" in mine[0]
        assert "win_rate" in mine[-1]
        evaluated = [line["env_steps"] for line in mine if "win_rate" in line]
        assert all(later - earlier >= 60 for earlier, later in itertools.pairwise(evaluated[:-1]))


def test_there_is_a_model_for_each_seed(run):
    assert run.seeds == [0, 1]


def test_the_same_experiment_writes_the_same_bytes(run, tmp_path):
    again = trained(tmp_path / "again", seeds=2)
    assert without_time(again) == without_time(run)
    assert_same_models(again, run)


def test_a_finished_run_that_is_resumed_stays_as_it_is(run):
    run.keep_by_task(4, {"a": [1, 2]})
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}
    assert trainer.run(small(seeds=2), run, resume=True)
    assert {path.name: path.read_bytes() for path in run.path.iterdir()} == before


def test_models_of_a_finished_run_that_were_left_away_come_back(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    other = run_dir.existing(tmp_path / "run")
    (other.path / "model_seed_1.safetensors").unlink()
    assert trainer.run(small(seeds=2), other, resume=True)
    assert_same_models(other, run)


def test_what_cannot_go_on_begins_anew_and_loses_nothing(run, tmp_path, capsys):
    other = run_dir.create(tmp_path / "run", small(seeds=2))
    other.restart()
    other.append(run.metrics()[:3])
    (other.path / "model_seed_1.safetensors").write_bytes(b"of that start")
    assert trainer.run(small(seeds=2), other, resume=True)
    assert (other.path / "earlier_1" / "model_seed_1.safetensors").read_bytes() == b"of that start"
    assert len((other.path / "earlier_1" / run_dir.METRICS).read_text().splitlines()) == 3
    assert f"What was there is in {other.path / 'earlier_1'}" in capsys.readouterr().err
    assert without_time(other) == without_time(run)


def test_a_stopped_run_goes_on_to_the_same_end(run, tmp_path):
    asked = small(seeds=2)
    other = run_dir.create(tmp_path / "run", asked)
    stopped = replace(asked, options=replace(asked.options, stop_after=0.0))
    assert not trainer.run(stopped, other)
    assert trainer.run(asked, other, resume=True)
    assert without_time(other) == without_time(run)
    assert_same_models(other, run)


@pytest.mark.parametrize("little", [False, True])
def test_episodes_saved_in_either_form_lead_to_the_same_end(run, tmp_path, little):
    asked = small(seeds=2, condense=little)
    other = run_dir.create(tmp_path / "run", asked)
    assert trainer.run(replace(asked, options=replace(asked.options, steps=100)), other)
    assert other.episodes_whole == (0 if little else None)
    assert ((other.path / run_dir.TRAINING).stat().st_size < (run.path / run_dir.TRAINING).stat().st_size) == little
    assert trainer.run(asked, other, resume=True)
    assert_same_models(other, run)


def test_episodes_that_would_not_come_back_are_saved_whole(run, tmp_path, monkeypatch):
    def play_again(*arguments):
        played = again(*arguments)
        return replace(played, won=played.won.at[1, 2].set(~played.won[1, 2]))

    again = compression.play_again
    monkeypatch.setattr(compression, "play_again", play_again)
    monkeypatch.setattr(trainer, "WHOLE_AT_ONCE", 2)
    asked = small(seeds=2, condense=True)
    other = run_dir.create(tmp_path / "run", asked)
    assert trainer.run(replace(asked, options=replace(asked.options, steps=100)), other)
    assert other.episodes_whole == 2
    assert trainer.run(asked, other, resume=True)
    assert_same_models(other, run)


def assert_same_models(one: run_dir.Run, other: run_dir.Run) -> None:
    for seed in (0, 1):
        name = f"model_seed_{seed}.safetensors"
        assert (one.path / name).read_bytes() == (other.path / name).read_bytes()


def test_a_loss_that_is_no_number_stops_training_and_spoils_nothing(run, tmp_path):
    asked = small(seeds=1)
    other = run_dir.create(tmp_path / "run", asked)
    assert trainer.run(asked, other)
    before = {path.name: path.read_bytes() for path in other.path.glob("*.safetensors")}
    # Within a few updates this learning rate takes the parameters beyond float32.
    wild = replace(asked, options=replace(asked.options, lr=1e30, steps=2000))
    with pytest.raises(RefilError, match=r"loss of seed 0 is (nan|inf).*--lr|not finite"):
        trainer.run(wild, other, resume=True)
    assert {path.name: path.read_bytes() for path in other.path.glob("*.safetensors")} == before
    assert all(line["loss"] is None or math.isfinite(line["loss"]) for line in other.metrics())


def test_tensorboard_gets_every_number(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = trained(tmp_path / "run", seeds=1, tensorboard=True)
    events = EventAccumulator(str(run.path / "tensorboard" / "seed_0"))
    events.Reload()
    tags = set(events.Tags()["tensors"]) | set(events.Tags()["scalars"])
    assert {"loss", "win_rate", "epsilon", "updates"} <= tags
    lines = [line for line in run.metrics() if "win_rate" in line]
    assert [event.step for event in events.Tensors("win_rate")] == [line["env_steps"] for line in lines]


def test_metrics_are_plain_json(run):
    text = (run.path / run_dir.METRICS).read_text()
    assert len([json.loads(line) for line in text.splitlines()]) == len(run.metrics())
    assert "NaN" not in text


def test_a_models_file_says_what_it_was_trained_for(run):
    from safetensors import safe_open

    with safe_open(run.path / "model_seed_0.safetensors", framework="numpy") as file:
        notes = json.loads(file.metadata()[serialization.KIND])
        assert json.loads(notes["trained"])["env"]["agents"] == 3
        assert np.isfinite(file.get_tensor("utility.encode.embed.weight")).all()


def test_training_goes_on_while_it_is_saved(tmp_path, monkeypatch):
    at = []

    def save(self, *arguments):
        at.append([len(run.metrics())])
        if len(at) == 1:
            assert gone_on.wait(60)
        saved(self, *arguments)
        at[-1].append(len(run.metrics()))

    def append(self, lines):
        appended(self, lines)
        if at:
            gone_on.set()

    gone_on, saved, appended = threading.Event(), run_dir.Run.save, run_dir.Run.append
    monkeypatch.setattr(run_dir.Run, "save", save)
    monkeypatch.setattr(run_dir.Run, "append", append)
    asked = small(seeds=1, save_every=0.0, steps=2000)
    run = run_dir.create(tmp_path / "run", asked)
    assert trainer.run(asked, run)
    assert at[0][1] > at[0][0]


def test_a_save_reads_nothing_and_writes_models_first(tmp_path, monkeypatch):
    """One's own file may change while training goes on; and what is saved as done has its models."""
    mine = tmp_path / "mine.py"
    mine.write_text('"""Mine."""\nfrom tests.tiny_envs import Config, build\n')
    asked = config.default(str(mine), "refil")
    asked = replace(asked, options=replace(small().options, env=asked.options.env))
    run, saved, seen = run_dir.create(tmp_path / "run", asked), run_dir.Run.save, []

    def save(self, *arguments):
        seen.append(self.seeds)
        saved(self, *arguments)

    def append(self, lines):
        mine.write_text("this is no Python any more")
        appended(self, lines)

    appended = run_dir.Run.append
    monkeypatch.setattr(run_dir.Run, "save", save)
    monkeypatch.setattr(run_dir.Run, "append", append)
    assert trainer.run(asked, run)
    assert seen == [[0]]


def test_what_has_no_room_is_refused_before_anything_is_made(tmp_path):
    asked = small(buffer=10**9)
    run = run_dir.create(tmp_path / "run", asked)
    with pytest.raises(
        RefilError, match=r"would take [\d,.]+ GB of memory where there are .*: --buffer or --seeds is too large"
    ):
        trainer.run(asked, run)
    assert not (run.path / run_dir.METRICS).exists()


def test_a_save_that_fails_ends_training(tmp_path, monkeypatch):
    def save(self, *arguments):
        raise RefilError("the disk is full")

    monkeypatch.setattr(run_dir.Run, "save", save)
    asked = small(seeds=1, save_every=0.0, steps=2000)
    run = run_dir.create(tmp_path / "run", asked)
    with pytest.raises(RefilError, match="the disk is full"):
        trainer.run(asked, run)
    assert run.metrics()[-1]["env_steps"] < 2000
