"""The lock of a run's folder."""

import os

import pytest

from refil.errors import RefilError
from refil.storage import lock


def test_temporary_files_of_killed_processes_are_removed(tmp_path):
    parts = [".config.json.part", ".model_seed_3.safetensors.0123456789abcdef.part"]  # the first of version 0.2.0
    for name in (*parts, ".by_task.json.0123456789abcdef.part", ".mine.part", "notes"):
        (tmp_path / name).write_text("")
    with lock.locked(tmp_path):
        pass
    # Wins by task are written without the lock, perhaps just now.
    assert sorted(os.listdir(tmp_path)) == [".by_task.json.0123456789abcdef.part", ".mine.part", "lock", "notes"]


def test_a_lock_that_links_to_another_file_destroys_nothing(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(RefilError, match=r"cannot write .*lock: it is a symbolic link"), lock.locked(tmp_path / "run"):
        pass
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_lock_that_is_a_fifo_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(RefilError, match=r"cannot write .*lock: it is a FIFO"), lock.locked(tmp_path):
        pass


def test_a_folder_is_locked_while_a_process_trains_in_it(tmp_path):
    assert not lock.is_locked(tmp_path)  # nobody has trained here
    with lock.locked(tmp_path):
        assert lock.is_locked(tmp_path)
    assert not lock.is_locked(tmp_path)
    with lock.locked(tmp_path):  # looking did not keep the lock
        pass
