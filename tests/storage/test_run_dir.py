"""A run's folder."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from refil.errors import RefilError
from refil.storage import run_dir
from tests.tiny_runs import small

TREE = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": {"c": np.array([True, False]), "d": np.int32(7)}}


@pytest.fixture
def run(tmp_path) -> run_dir.Run:
    made = run_dir.create(tmp_path / "run", small())
    made.restart()
    return made


def test_saving_remembers_how_long_the_metrics_were(run):
    run.append([{"line": 1}])
    run.save(TREE, seconds=1.5, metrics_bytes=run.metrics_bytes)
    run.append([{"line": 2}])
    tree, seconds = run.restore(TREE)
    assert seconds == 1.5
    assert run.metrics() == [{"line": 1}]
    np.testing.assert_array_equal(tree["a"], TREE["a"])


def test_a_line_cut_off_by_a_crash_is_no_line(run):
    run.append([{"line": 1}])
    with (run.path / run_dir.METRICS).open("a") as file:
        file.write('{"line": 2')
    assert run.metrics() == [{"line": 1}]


def test_metrics_shorter_than_when_saved_are_refused(run):
    run.append([{"line": 1}])
    run.save(TREE, seconds=0.0, metrics_bytes=run.metrics_bytes)
    (run.path / run_dir.METRICS).write_text("")
    with pytest.raises(RefilError, match="do not belong together"):
        run.restore(TREE)


def test_what_was_there_when_all_begins_anew_is_kept(run):
    assert run.restart() is None
    for number in (1, 2):
        run.append([{"line": number}])
        assert run.restart() == run.path / f"earlier_{number}"
        assert run.metrics() == []
        assert json.loads((run.path / f"earlier_{number}" / run_dir.METRICS).read_text()) == {"line": number}


def test_metrics_whose_run_was_left_away_are_not_taken_for_a_start(run):
    run.append([{"line": 1}])
    (run.path / run_dir.UNSAVED).unlink()
    with pytest.raises(RefilError, match=r"no training.safetensors to go on from.*--config .*config.json --out"):
        run.restart()
    assert run.metrics() == [{"line": 1}]


def test_metrics_are_on_the_disk_before_what_counts_on_them(run, monkeypatch):
    written = []
    monkeypatch.setattr(os, "fsync", lambda file: written.append(Path(os.readlink(f"/proc/self/fd/{file}")).name))
    run.save(TREE, seconds=0.0, metrics_bytes=run.metrics_bytes)
    assert written == [run_dir.METRICS, f".{run_dir.TRAINING}.part"]


def test_a_line_after_the_last_save_is_told_from_none(run):
    run.append([{"line": 1}])
    assert not run.saved_to_the_end
    run.save(TREE, seconds=0.0, metrics_bytes=run.metrics_bytes)
    assert run.saved_to_the_end
    run.append([{"line": 2}])
    assert not run.saved_to_the_end
    (run.path / run_dir.TRAINING).unlink()
    assert run.saved_to_the_end  # nothing says otherwise: models and what to go on from have been left away


def test_a_folder_that_holds_a_run_is_not_taken_again(run):
    run.append([{"line": 1}])
    with pytest.raises(RefilError, match=r"holds a run already.*--resume"):
        run_dir.create(run.path, small())


def test_a_folder_in_which_nothing_has_come_of_a_run_is_as_good_as_new(run):
    other = replace(small(), options=replace(small().options, lr=0.1))
    assert run_dir.create(run.path, other).experiment == other


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RefilError, match=r"cannot write .*file"):
        run_dir.create(tmp_path / "file", small())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RefilError, match="cannot write"):
        run_dir.create(tmp_path / "run", small())


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(RefilError, match="holds no run"):
        run_dir.existing(tmp_path)


def test_a_lock_keeps_others_out_and_dies_with_its_process(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from refil import runs\n"
        "with runs.locked(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)\n"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    with pytest.raises(RefilError, match="another process"), run_dir.locked(tmp_path):
        pass
    other.kill()
    other.wait()
    with run_dir.locked(tmp_path):
        pass


def test_the_config_is_json_that_reads_back(run):
    assert json.loads(Path(run.path / run_dir.CONFIG).read_text())["env"]["agents"] == 3
    assert run.experiment == small()


def test_what_other_models_won_by_task_is_forgotten(tmp_path):
    run = run_dir.create(tmp_path / "run", small())
    run.keep_by_task(4, {"a": [1, 2]})
    assert run.by_task() == {"a": [0.25, 0.5]}
    models = jax.vmap(run.experiment.build().method.init)(jax.random.split(jax.random.key(0), 1))
    run.save_models(models, [0], run.experiment)
    with pytest.raises(RefilError, match="--by-task"):
        run.by_task()
