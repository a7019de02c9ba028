"""The folder of a run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from refil.errors import RefilError
from refil.storage import run_dir
from refil.training import flags
from tests.tiny_runs import small

STATE = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": {"c": np.array([True, False]), "d": np.int32(7)}}


@pytest.fixture
def run(tmp_path) -> run_dir.RunDir:
    created = run_dir.create(tmp_path / "run", small())
    created.archive_unsaved()
    return created


def save(run: run_dir.RunDir, **changes) -> None:
    run.save_checkpoint(STATE, small(**changes), seconds=1.5, metrics_bytes=run.metrics_bytes)


def save_models(run: run_dir.RunDir, config) -> None:
    models = jax.vmap(config.build().method.init)(jax.random.split(jax.random.key(0), 2))
    run.save_models(models, [3, 4], config)


def test_metrics_logged_after_the_checkpoint_are_cut_off_on_resume(run):
    run.append_metrics([{"line": 1}])
    save(run)
    run.append_metrics([{"line": 2}])
    state, seconds = run.load_checkpoint(STATE, small())
    assert seconds == 1.5
    assert run.metrics() == [{"line": 1}]
    np.testing.assert_array_equal(state["a"], STATE["a"])


def test_a_line_cut_off_by_a_crash_is_ignored(run):
    run.append_metrics([{"line": 1}])
    with (run.path / run_dir.METRICS).open("a") as file:
        file.write('{"line": 2')
    assert run.metrics() == [{"line": 1}]


@pytest.mark.parametrize("content", ["", '{"line": 1}', '{"line": 123456}\n{"line": 2}\n'], ids=["empty", "short", "other"])
def test_metrics_are_never_cut_within_a_line(run, content):
    run.append_metrics([{"line": 1}])
    save(run)
    (run.path / run_dir.METRICS).write_text(content)
    with pytest.raises(RefilError, match=r"does not match checkpoint.safetensors: no line ends at byte 12"):
        run.load_checkpoint(STATE, small())
    assert (run.path / run_dir.METRICS).read_text() == content


def test_a_checkpoint_of_another_config_is_refused_with_the_option_and_both_values(run):
    save(run)
    with pytest.raises(RefilError, match=r"was saved with algorithm.lr 0.0005, but the config has algorithm.lr 0.1"):
        run.load_checkpoint(STATE, small(lr=0.1))
    with pytest.raises(RefilError, match=r"method.name refil, but the config has method.name qmix_attention"):
        run.load_checkpoint(STATE, small("qmix_attention"))


def test_a_checkpoint_of_other_steps_and_output_is_loaded(run):
    save(run)
    run.load_checkpoint(STATE, small(steps=999, log_every=3, compact_checkpoints=True))


def test_the_config_is_compared_before_shapes(run):
    save(run)
    with pytest.raises(RefilError, match=r"algorithm.buffer 20, but the config has algorithm.buffer 30"):
        run.load_checkpoint({"a": np.zeros(9)}, small(buffer=30))


def test_resuming_under_other_flags_warns(run, monkeypatch):
    save(run)
    monkeypatch.setattr(flags, "effective", lambda: {"jax": "99"})
    with pytest.warns(UserWarning, match="was saved with jax '.*', not '99'"):
        run.load_checkpoint(STATE, small())


def test_files_of_a_start_without_checkpoint_are_archived(run):
    assert run.archive_unsaved() is None
    for number in (1, 2):
        run.append_metrics([{"line": number}])
        assert run.archive_unsaved() == run.path / f"aborted_{number}"
        assert run.metrics() == []
        assert json.loads((run.path / f"aborted_{number}" / run_dir.METRICS).read_text()) == {"line": number}


def test_metrics_of_a_run_whose_checkpoint_was_deleted_are_kept(run):
    run.append_metrics([{"line": 1}])
    (run.path / run_dir.UNSAVED).unlink()
    with pytest.raises(RefilError, match=r"no checkpoint.safetensors to resume from; .*--config .*config.json --out"):
        run.archive_unsaved()
    assert run.metrics() == [{"line": 1}]


def test_a_run_of_version_0_1_is_not_resumed(run):
    run.append_metrics([{"line": 1}])
    (run.path / run_dir.UNSAVED).unlink()
    (run.path / run_dir.OLD_CHECKPOINT).write_text("")
    with pytest.raises(RefilError, match=r"training.safetensors was written by refil 0.1 and cannot be resumed"):
        run.archive_unsaved()


def test_metrics_are_flushed_before_the_checkpoint_that_refers_to_them(run, monkeypatch):
    written = []
    monkeypatch.setattr(os, "fsync", lambda file: written.append(Path(os.readlink(f"/proc/self/fd/{file}")).name))
    save(run)
    assert written == [run_dir.METRICS, f".{run_dir.CHECKPOINT}.part"]


def test_a_run_is_complete_if_nothing_was_logged_after_its_checkpoint(run):
    run.append_metrics([{"line": 1}])
    assert not run.is_complete
    save(run)
    assert run.is_complete
    run.append_metrics([{"line": 2}])
    assert not run.is_complete
    (run.path / run_dir.CHECKPOINT).unlink()
    assert run.is_complete  # assumed where the checkpoint was deleted


def test_the_number_of_uncompressed_episodes_is_stored(run):
    save(run)
    assert run.num_uncompressed is None
    run.save_checkpoint(STATE, small(), 0.0, run.metrics_bytes, num_uncompressed=16)
    assert run.num_uncompressed == 16


def test_a_folder_that_holds_a_run_is_not_used_again(run):
    run.append_metrics([{"line": 1}])
    with pytest.raises(RefilError, match=r"already holds a run.*--resume"):
        run_dir.create(run.path, small())


def test_a_folder_in_which_nothing_was_logged_is_used_again(run):
    assert run_dir.create(run.path, small(lr=0.1)).config == small(lr=0.1)


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
        run_dir.open_run(tmp_path)


def test_a_lock_keeps_others_out_and_ends_with_its_process(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from refil.storage import run_dir\n"
        "with run_dir.locked(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)\n"
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
    assert run.config == small()


def test_models_are_loaded_for_the_config_they_were_trained_with(run):
    save_models(run, small())
    like = jax.eval_shape(small().build().method.init, jax.random.key(0))
    assert run.seeds == [3, 4]
    assert {leaf.shape[0] for leaf in jax.tree.leaves(run.load_models(like))} == {2}
    run.write_config(small(batch=4))
    with pytest.raises(RefilError, match=r"model_seed_3.* with algorithm.batch 5, but the config has algorithm.batch 4"):
        run.load_models(like)


def test_win_rates_by_task_are_deleted_with_the_models_they_belong_to(run):
    run.write_by_task(4, {"a": [1, 2]})
    assert run.by_task() == {"a": [0.25, 0.5]}
    save_models(run, small())
    with pytest.raises(RefilError, match="--by-task"):
        run.by_task()
