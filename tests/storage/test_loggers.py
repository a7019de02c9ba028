"""TensorBoard and Weights & Biases: what they get, and how a resumed run continues its curves."""

import json
import sys
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest

from refil.errors import RefilError
from refil.storage import loggers, run_dir
from tests.tiny_runs import small


def line(seed: int, steps: int, win_rate: float) -> dict:
    return {"seed": seed, "env_steps": steps, "loss": None if steps < 20 else 0.5, "win_rate": win_rate}


def log(config, path, lines) -> None:
    with ExitStack() as stack:
        (logger,) = loggers.open_loggers(config, path, stack)
        for each in lines:
            logger(each)


def events(path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(path))
    found.Reload()
    return found


def test_a_resumed_run_continues_its_tensorboard_curves_without_doubled_points(tmp_path):
    from tensorboard.backend.event_processing import plugin_event_accumulator

    config = small(tensorboard=True)
    log(config, tmp_path, [line(0, 10, 0.1), line(0, 20, 0.2), line(0, 30, 0.3), line(0, 40, 0.4), line(1, 11, 0.9)])
    # The checkpoint was made after step 20; event files of one second are ordered by the process and a count.
    log(config, tmp_path, [line(0, 30, 0.35), line(0, 40, 0.45), line(0, 50, 0.55)])
    curve = events(tmp_path / "tensorboard" / "seed_0").Scalars("win_rate")
    assert [point.step for point in curve] == [10, 20, 30, 40, 50]
    assert [point.value for point in curve] == pytest.approx([0.1, 0.2, 0.35, 0.45, 0.55])
    assert [point.step for point in events(tmp_path / "tensorboard" / "seed_1").Scalars("win_rate")] == [11]
    shown = plugin_event_accumulator.EventAccumulator(str(tmp_path / "tensorboard" / "seed_0"))  # what the server reads
    shown.Reload()
    assert [point.step for point in shown.Tensors("win_rate")] == [10, 20, 30, 40, 50]


def test_tensorboard_gets_options_to_filter_by(tmp_path):
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    log(small(tensorboard=True, lr=0.25), tmp_path, [line(0, 10, 0.1)])
    metadata = events(tmp_path / "tensorboard" / "seed_0").summary_metadata["_hparams_/session_start_info"]
    options = HParamsPluginData.FromString(metadata.plugin_data.content).session_start_info.hparams
    assert options["algorithm.lr"].number_value == 0.25
    assert options["env.name"].string_value == "group_matching"
    assert options["train.deterministic"].bool_value is False
    assert "output.wandb" not in options


class FakeWandb:
    """Stores what is logged as the service does: steps never decrease, also after a run is resumed."""

    def __init__(self) -> None:
        self.stored, self.inits, self.finished, self.offline = {}, [], 0, False

    def init(self, **options):
        self.inits.append(options)
        name = f"{options['id']}-{len(self.inits)}" if self.offline else options["id"]
        points = self.stored.setdefault(name, [])
        step = points[-1][0] + 1 if points else 0
        run = SimpleNamespace(step=step, offline=self.offline)

        def log(values, step):
            assert step >= run.step, "the service ignores this with a warning"
            run.step = step
            points.append((step, values))

        def finish():
            self.finished += 1

        run.log, run.finish = log, finish
        return run


@pytest.fixture
def wandb(monkeypatch) -> FakeWandb:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


def test_wandb_has_a_run_per_seed_in_the_group_of_the_folder(tmp_path, wandb):
    path = tmp_path / "my_run"
    path.mkdir()
    log(small(wandb="project", seeds=2, seed=5, lr=0.25), path, [line(6, 10, 0.1), line(5, 11, 0.2), line(5, 20, 0.3)])
    assert [init["name"] for init in wandb.inits] == ["seed_5", "seed_6"]
    assert {(init["project"], init["group"]) for init in wandb.inits} == {("project", "my_run")}
    assert wandb.inits[0]["config"]["algorithm"]["lr"] == 0.25
    assert wandb.inits[0]["config"]["seed"] == 5
    first, second = wandb.stored.values()
    assert first == [(11, {"win_rate": 0.2}), (20, {"loss": 0.5, "win_rate": 0.3})]
    assert second == [(10, {"win_rate": 0.1})]
    assert wandb.finished == 2


def test_a_resumed_run_continues_its_wandb_runs_without_doubled_points(tmp_path, wandb):
    config = small(wandb="project")
    log(config, tmp_path, [line(0, 10, 0.1), line(0, 20, 0.2), line(0, 30, 0.3)])
    log(config, tmp_path, [line(0, 20, 0.2), line(0, 30, 0.3), line(0, 40, 0.4)])
    assert len({init["id"] for init in wandb.inits}) == 1
    assert {init["resume"] for init in wandb.inits} == {"allow"}
    (points,) = wandb.stored.values()
    assert [step for step, _ in points] == [10, 20, 30, 40]


def test_a_resumed_run_has_all_points_in_its_last_folder_offline(tmp_path, wandb):
    wandb.offline, config = True, small(wandb="project")
    run = run_dir.create(tmp_path / "run", config)
    first = [line(0, 10, 0.1), line(0, 20, 0.2), line(0, 30, 0.3)]
    log(config, run.path, first)
    run.append_metrics(first[:2])
    run.save_checkpoint({"a": np.zeros(1)}, config, 1.0, run.metrics_bytes)
    run.append_metrics(first[2:])
    log(config, run.path, [line(0, 30, 0.3), line(0, 40, 0.4)])
    before, after = wandb.stored.values()
    assert [step for step, _ in before] == [10, 20, 30]
    assert [step for step, _ in after] == [10, 20, 30, 40]


def test_ids_are_kept_when_seeds_are_added(tmp_path, wandb):
    log(small(wandb="project"), tmp_path, [])
    before = json.loads((tmp_path / loggers.WANDB_IDS).read_text())
    log(small(wandb="project", seeds=2), tmp_path, [])
    after = json.loads((tmp_path / loggers.WANDB_IDS).read_text())
    assert after["0"] == before["0"] != after["1"]


def test_damaged_ids_are_refused(tmp_path, wandb):
    (tmp_path / loggers.WANDB_IDS).write_text("[1]")
    with pytest.raises(RefilError, match=r"wandb\.json is damaged"):
        log(small(wandb="project"), tmp_path, [])


def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(RefilError, match="needs the extra 'wandb'"):
        log(small(wandb="project"), tmp_path, [])
