"""The folder of a run."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from refil.errors import RefilError
from refil.storage import regular, run_dir
from refil.training import flags
from tests.tiny_runs import small

STATE = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": {"c": np.array([True, False]), "d": np.int32(7)}}

TWO_SEEDS = small(seed=3, seeds=2)


@pytest.fixture
def run(tmp_path) -> run_dir.RunDir:
    created = run_dir.create(tmp_path / "run", small())
    created.archive_unsaved()
    return created


def save(run: run_dir.RunDir, **changes) -> None:
    run.save_checkpoint(STATE, small(**changes), seconds=1.5, metrics_bytes=run.metrics_bytes)


def save_models(run: run_dir.RunDir, config) -> None:
    run.write_config(config)
    models = jax.vmap(config.build().method.init)(jax.random.split(jax.random.key(0), 2))
    run.save_models(models, [3, 4], config)


def test_metrics_logged_after_the_checkpoint_are_cut_off_on_resume(run):
    run.append_metrics([{"seed": 0, "env_steps": 1}])
    save(run)
    run.append_metrics([{"seed": 0, "env_steps": 2}])
    state, seconds = run.load_checkpoint(STATE, small())
    assert seconds == 1.5
    assert run.metrics() == [{"seed": 0, "env_steps": 1}]
    np.testing.assert_array_equal(state["a"], STATE["a"])


def test_a_model_that_was_not_saved_with_the_checkpoint_is_refused(run):
    config = small(seeds=2, seed=3)
    method = config.build().method
    like, models = jax.eval_shape(method.init, jax.random.key(0)), jax.vmap(method.init)(jax.random.split(jax.random.key(0), 2))
    run.write_config(config)
    run.save_models(models, [3, 4], config)
    assert run.load_model(3, like) is not None  # before the first checkpoint
    run.save_checkpoint(STATE, config, 1.5, run.metrics_bytes)
    assert run.has_models([3, 4])
    run.load_models(like)
    other = run_dir.create(run.path.parent / "other", config)  # the same config, trained on another machine
    other.save_models(jax.tree.map(lambda leaf: leaf + 1, models), [3, 4], config)
    shutil.copy(other.path / "model_seed_4.safetensors", run.path)
    run.load_model(3, like)
    assert not run.has_models([3, 4])
    with pytest.raises(
        RefilError, match=r"model_seed_4.safetensors was not saved with checkpoint.safetensors: it is of another"
    ):
        run.load_models(like)
    with run_dir.locked(run.path):  # models are saved before their checkpoint
        run.load_models(like)


def test_a_line_cut_off_by_a_crash_is_ignored(run):
    run.append_metrics([{"seed": 0, "env_steps": 1}])
    with (run.path / run_dir.METRICS).open("a") as file:
        file.write('{"seed": 0')
    assert run.metrics() == [{"seed": 0, "env_steps": 1}]


@pytest.mark.parametrize(
    "content",
    ["", '{"seed": 0, "env_steps": 1}', '{"seed": 0, "env_steps": 123456}\n{"seed": 0, "env_steps": 2}\n'],
    ids=["empty", "short", "other"],
)
def test_metrics_are_never_cut_within_a_line(run, content):
    run.append_metrics([{"seed": 0, "env_steps": 1}])
    save(run)
    (run.path / run_dir.METRICS).write_text(content)
    with pytest.raises(RefilError, match=r"does not match checkpoint.safetensors: no line ends at byte 28"):
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
    state, seconds = run.load_checkpoint(STATE, small(steps=999, log_every=3, compact_checkpoints=True))
    np.testing.assert_array_equal(state["a"], STATE["a"])
    assert seconds == 1.5


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
        run.append_metrics([{"seed": 0, "env_steps": number}])
        assert run.archive_unsaved() == run.path / f"aborted_{number}"
        assert run.metrics() == []
        assert json.loads((run.path / f"aborted_{number}" / run_dir.METRICS).read_text()) == {"seed": 0, "env_steps": number}


def test_metrics_of_a_run_whose_checkpoint_was_deleted_are_kept(run):
    run.append_metrics([{"seed": 0, "env_steps": 1}])
    (run.path / run_dir.UNSAVED).unlink()
    with pytest.raises(RefilError, match=r"no checkpoint.safetensors to resume from; training its config in another folder"):
        run.archive_unsaved()
    assert run.metrics() == [{"seed": 0, "env_steps": 1}]


def test_a_run_of_version_0_1_is_not_resumed(run):
    run.append_metrics([{"seed": 0, "env_steps": 1}])
    (run.path / run_dir.UNSAVED).unlink()
    (run.path / run_dir.OLD_CHECKPOINT).write_text("")
    with pytest.raises(RefilError, match=r"training.safetensors was written by refil 0.1 and cannot be resumed"):
        run.archive_unsaved()


def test_metrics_are_flushed_before_the_checkpoint_that_refers_to_them(run, monkeypatch):
    written = []
    monkeypatch.setattr(os, "fsync", lambda file: written.append(Path(os.readlink(f"/proc/self/fd/{file}")).name))
    save(run)
    assert [re.sub(r"\.[0-9a-f]{16}\.part$", "", name) for name in written] == [run_dir.METRICS, f".{run_dir.CHECKPOINT}"]


def test_a_run_is_complete_if_nothing_was_logged_after_its_checkpoint(run):
    run.append_metrics([{"seed": 0, "env_steps": 1}])
    assert not run.is_complete
    save(run)
    assert run.is_complete
    run.append_metrics([{"seed": 0, "env_steps": 2}])
    assert not run.is_complete
    (run.path / run_dir.CHECKPOINT).unlink()
    assert run.is_complete  # assumed where the checkpoint was deleted


def test_the_number_of_uncompressed_episodes_is_stored(run):
    save(run)
    assert run.num_uncompressed is None
    run.save_checkpoint(STATE, small(), 0.0, run.metrics_bytes, num_uncompressed=16)
    assert run.num_uncompressed == 16


def test_a_folder_that_holds_a_run_is_not_used_again(run):
    run.append_metrics([{"seed": 0, "env_steps": 1}])
    with pytest.raises(RefilError, match=r"already holds a run: resume=True"):
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
    save_models(run, TWO_SEEDS)
    like = jax.eval_shape(small().build().method.init, jax.random.key(0))
    assert run.seeds == [3, 4]
    assert {leaf.shape[0] for leaf in jax.tree.leaves(run.load_models(like))} == {2}
    run.write_config(small(seed=3, seeds=2, batch=4))
    with pytest.raises(RefilError, match=r"model_seed_3.* with algorithm.batch 5, but the config has algorithm.batch 4"):
        run.load_models(like)


def test_win_rates_by_task_are_deleted_with_the_models_they_belong_to(run):
    run.write_by_task(4, {"a": [1, 2]})
    assert run.by_task() == {"a": [0.25, 0.5]}
    save_models(run, TWO_SEEDS)
    with pytest.raises(RefilError, match="evaluating the run by task creates it"):
        run.by_task()


LINES = [{"seed": 0, "env_steps": steps} for steps in (1, 2, 3)]
CONFIG = small()
MODELS = {"weight": np.ones((1, 2), np.float32)}


class Killed(BaseException):
    """Stands for SIGKILL: nothing that follows touches a file."""


def live(path: Path) -> run_dir.RunDir:
    """Start or resume a run that logs three lines and saves after each, as the command line and the trainer do."""
    with run_dir.locked(path):
        run = run_dir.open_run(path) if (path / run_dir.CONFIG).exists() else run_dir.create(path, CONFIG)
        done = 0
        if run.has_checkpoint:
            done = int(run.load_checkpoint({"done": np.int32(0)}, CONFIG)[0]["done"])
        else:
            run.archive_unsaved()
        for number in range(done, len(LINES)):
            run.append_metrics([LINES[number]])
            run.save_models(MODELS, [0], CONFIG)
            run.save_checkpoint({"done": np.int32(number + 1)}, CONFIG, 0.0, run.metrics_bytes)
        return run


def count_operations(monkeypatch, kill_at: int | None = None) -> list[str]:
    """Count operations on files; from number `kill_at` on, none of them takes place."""
    names = []

    def counted(name, original):
        def call(*arguments, **options):
            if kill_at is not None and len(names) >= kill_at:
                raise Killed
            names.append(name)
            return original(*arguments, **options)

        return call

    for owner, name in (*((Path, each) for each in ("replace", "rename", "unlink", "mkdir")), (os, "fsync")):
        monkeypatch.setattr(owner, name, counted(name, getattr(owner, name)))
    monkeypatch.setattr(regular, "open_file", counted("open", regular.open_file))
    return names


def test_a_run_killed_between_any_two_operations_on_files_resumes(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        operations = count_operations(patch)
        live(tmp_path / "whole")
    total = len(operations)
    assert total > 40
    for number in range(total):
        path = tmp_path / str(number)
        with monkeypatch.context() as patch:
            count_operations(patch, kill_at=number)
            with pytest.raises(Killed):
                live(path)
        run = live(path)
        assert run.metrics() == LINES
        assert run.seeds == [0]
        assert run.is_complete
        assert not list(path.glob(".*.part"))


def test_a_start_that_failed_before_it_learned_anything_does_not_block_the_same_command(run):
    run.append_metrics([LINES[0] | {"updates": 0}])  # for example, a logger failed at its first line
    again = run_dir.create(run.path, small())
    assert again.archive_unsaved() == run.path / "aborted_1"
    run.append_metrics([LINES[0] | {"updates": 5}])
    with pytest.raises(RefilError, match="already holds a run"):
        run_dir.create(run.path, small())


def test_metrics_are_verified_with_their_checkpoint(run):
    run.append_metrics(LINES)
    save(run)
    assert run.metrics() == LINES
    (run.path / run_dir.METRICS).write_text((run.path / run_dir.METRICS).read_text().replace("3", "4"))
    with pytest.raises(RefilError, match=r"metrics.jsonl does not match checkpoint.safetensors"):
        run.metrics()


def test_metrics_are_not_read_under_the_config_of_another_run(run):
    run.append_metrics(LINES)
    save(run)
    run.write_config(small("qmix_attention"))
    with pytest.raises(RefilError, match=r"was saved with method.name refil, but the config has method.name qmix_attention"):
        run.metrics()


def test_a_line_after_the_checkpoint_of_a_seed_that_the_run_does_not_have_is_refused(run):
    run.append_metrics(LINES[:1])
    save(run)
    run.append_metrics(LINES[1:])
    assert run.metrics() == LINES
    run.append_metrics([LINES[0] | {"seed": 7}])
    with pytest.raises(RefilError, match=r"metrics.jsonl, line 4: the run has no seed 7"):
        run.metrics()


def test_metrics_are_not_read_under_a_config_that_lacks_options(run):
    run.append_metrics(LINES)
    save(run)
    values = json.loads((run.path / run_dir.CONFIG).read_text())
    del values["algorithm"]["lr"], values["train"]["kernels"]  # the second is newer than version 0.2.0
    (run.path / run_dir.CONFIG).write_text(json.dumps(values))
    with pytest.raises(RefilError, match=r"checkpoint.safetensors was saved with algorithm.lr, which the config lacks"):
        run.metrics()


def test_metrics_are_read_next_to_a_damaged_checkpoint_with_a_warning(run):
    run.append_metrics(LINES)
    (run.path / run_dir.CHECKPOINT).write_text("x")
    with pytest.warns(UserWarning, match=r"run cannot be verified: cannot read .*checkpoint.safetensors"):
        assert run.metrics() == LINES


def test_only_metrics_up_to_the_checkpoint_count_as_saved(run):
    assert run.saved_metrics() == []
    run.append_metrics(LINES[:2])
    assert run.saved_metrics() == []
    save(run)
    with (run.path / run_dir.METRICS).open("a") as file:
        file.write("garbage\n")
    assert run.saved_metrics() == LINES[:2]


def test_a_checkpoint_of_another_run_of_the_same_config_is_refused(run, tmp_path):
    other = run_dir.create(tmp_path / "other", small())
    for each, seconds in ((run, 1.25), (other, 2.25)):
        each.append_metrics([LINES[0] | {"seconds": seconds}])
        each.save_checkpoint(STATE, small(), seconds, each.metrics_bytes)
    (run.path / run_dir.CHECKPOINT).write_bytes((other.path / run_dir.CHECKPOINT).read_bytes())
    before = (run.path / run_dir.METRICS).read_bytes()
    with pytest.raises(RefilError, match=r"metrics.jsonl does not match checkpoint.safetensors"):
        run.load_checkpoint(STATE, small())
    assert (run.path / run_dir.METRICS).read_bytes() == before


def test_a_model_in_place_of_a_checkpoint_is_refused(run):
    save_models(run, TWO_SEEDS)
    (run.path / run_dir.CHECKPOINT).write_bytes((run.path / "model_seed_3.safetensors").read_bytes())
    with pytest.raises(RefilError, match=r"checkpoint.safetensors is not a checkpoint: its metadata has no"):
        _ = run.num_uncompressed


def test_parameters_that_are_not_finite_are_refused(run):
    state = {"learner": {"parameters": np.array([1.0, np.nan], np.float32)}, "replay": np.array([np.inf], np.float32)}
    run.save_checkpoint(state, small(), 0.0, 0)
    with pytest.raises(RefilError, match=r"cannot be used: learner.parameters has numbers that are not finite"):
        run.load_checkpoint(state, small())


def test_wins_of_other_models_are_refused(run):
    save_models(run, TWO_SEEDS)
    run.write_by_task(4, {"a": [1, 2]})
    assert run.by_task() == {"a": [0.25, 0.5]}
    (run.path / "model_seed_3.safetensors").write_bytes((run.path / "model_seed_4.safetensors").read_bytes())
    with pytest.raises(RefilError, match=r"by_task.json belongs to other models than those in .*; evaluating"):
        run.by_task()


def test_wins_of_models_that_were_not_published_belong_to_those_that_were(run):
    save_models(run, TWO_SEEDS)
    run.write_by_task(4, {"a": [1, 2]})
    (run.path / "model_seed_4.safetensors").unlink()
    assert run.by_task() == {"a": [0.25, 0.5]}
    (run.path / "model_seed_3.safetensors").unlink()
    assert run.by_task() == {"a": [0.25, 0.5]}


@pytest.mark.parametrize("stray", ["a model", "garbage", "a folder"])
def test_models_of_seeds_that_the_run_does_not_have_are_ignored_with_a_warning(run, stray):
    save_models(run, TWO_SEEDS)
    path = run.path / "model_seed_7.safetensors"
    if stray == "a folder":
        path.mkdir()
    else:
        path.write_bytes((run.path / "model_seed_3.safetensors").read_bytes() if stray == "a model" else b"garbage")
    with pytest.warns(UserWarning, match=r"model_seed_7.safetensors is ignored: the run has no seed 7"):
        assert run.seeds == [3, 4]
    with pytest.warns(UserWarning, match="no seed 7"):
        run.save_checkpoint(STATE, TWO_SEEDS, 1.0, run.metrics_bytes)
    with pytest.warns(UserWarning, match="no seed 7"):
        assert run.has_models([3, 4])


@pytest.mark.filterwarnings("ignore:.*is ignored")
def test_models_in_the_folder_of_a_new_run_block_it_only_if_they_would_be_replaced(tmp_path):
    (tmp_path / "model_seed_4.safetensors").write_bytes(b"precious")
    with pytest.raises(RefilError, match=r"already holds model_seed_4.safetensors of another run; choose another folder"):
        run_dir.create(tmp_path, TWO_SEEDS)
    assert [path.name for path in tmp_path.iterdir()] == ["model_seed_4.safetensors"]
    assert run_dir.create(tmp_path, small()).archive_unsaved() is None


def test_a_model_next_to_the_checkpoint_of_another_run_is_not_to_be_resumed(run, tmp_path):
    """Resuming would be refused, so evaluating does not advise it."""
    other = run_dir.create(tmp_path / "other", TWO_SEEDS)
    for number, each in enumerate((run, other)):
        each.append_metrics([{"seed": 3, "env_steps": 1, "seconds": number}])
        save_models(each, TWO_SEEDS)
        if number:
            models = jax.vmap(TWO_SEEDS.build().method.init)(jax.random.split(jax.random.key(1), 2))
            each.save_models(models, [3, 4], TWO_SEEDS)
        each.save_checkpoint(STATE, TWO_SEEDS, 1.0, each.metrics_bytes)
    shutil.copy(other.path / run_dir.CHECKPOINT, run.path)
    with pytest.raises(RefilError, match=r"metrics.jsonl does not match checkpoint.safetensors"):
        run.load_models(jax.eval_shape(TWO_SEEDS.build().method.init, jax.random.key(0)))


def test_links_in_a_run_folder_do_not_destroy_other_files(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("config.json", "checkpoint.safetensors", "model_seed_0.safetensors", "unsaved", "lock", "metrics.jsonl"):
        for link in (name, f".{name}.part"):
            path = tmp_path / link
            path.mkdir()
            (path / link).symlink_to(victim)
            with contextlib.suppress(RefilError):
                live(path)
            assert victim.read_text() == "precious"


def test_a_config_that_is_not_a_regular_file_is_refused(tmp_path):
    (tmp_path / "config.json").mkdir()
    with pytest.raises(RefilError, match=r"holds no run: .*config.json is not a regular file"):
        run_dir.open_run(tmp_path)
