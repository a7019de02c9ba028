"""Files that are replaced atomically."""

import os
import resource

import numpy as np
import pytest

from refil.errors import RefilError
from refil.storage import serialization

TREE = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": {"c": np.array([True, False]), "d": np.int32(7)}}


def test_arrays_are_read_back_unchanged(tmp_path):
    serialization.write_arrays(tmp_path / "x", TREE, {"note": "hello"})
    tree, metadata = serialization.read_arrays(tmp_path / "x", TREE)
    assert metadata == {"note": "hello"}
    np.testing.assert_array_equal(tree["a"], TREE["a"])
    assert tree["b"]["d"] == 7
    assert [path.name for path in tmp_path.iterdir()] == ["x"]  # no temporary file is left


@pytest.mark.parametrize("keep", [0, 5, 100, 250])
def test_a_truncated_file_is_refused(tmp_path, keep):
    serialization.write_arrays(tmp_path / "x", TREE, {})
    content = (tmp_path / "x").read_bytes()
    (tmp_path / "x").write_bytes(content[: min(keep, len(content) - 1)])
    with pytest.raises(RefilError, match="x"):
        serialization.read_arrays(tmp_path / "x", TREE)


def test_any_flipped_byte_is_detected(tmp_path):
    serialization.write_arrays(tmp_path / "x", TREE, {"note": "hello"})
    content = (tmp_path / "x").read_bytes()
    for position in range(len(content)):
        broken = bytearray(content)
        broken[position] ^= 0x01
        (tmp_path / "x").write_bytes(bytes(broken))
        try:
            tree, metadata = serialization.read_arrays(tmp_path / "x", TREE)
        except RefilError:
            continue
        assert metadata == {"note": "hello"}  # white space in the header may change without harm
        np.testing.assert_array_equal(tree["a"], TREE["a"])


def test_a_foreign_file_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(3)}, tmp_path / "x")
    with pytest.raises(RefilError, match="is not a checkpoint or model of refil"):
        serialization.read_arrays(tmp_path / "x", TREE)


def test_a_file_of_version_0_1_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(3)}, tmp_path / "x", {"refil 1": "{}"})
    with pytest.raises(RefilError, match=r"x was written by refil 0.1, whose checkpoints and models this version cannot read$"):
        serialization.read_arrays(tmp_path / "x", TREE)


def test_a_file_of_other_shapes_is_refused_by_name(tmp_path):
    serialization.write_arrays(tmp_path / "x", TREE, {})
    with pytest.raises(RefilError, match=r"float32\[2, 3\] for a, not float32\[3\]"):
        serialization.read_arrays(tmp_path / "x", TREE | {"a": np.zeros(3, np.float32)})
    with pytest.raises(RefilError, match="nothing for e"):
        serialization.read_arrays(tmp_path / "x", TREE | {"e": np.zeros(3, np.float32)})


def test_the_old_file_survives_a_full_disk(tmp_path):
    """A limit on file sizes stands in for a full disk: writing stops in the middle."""
    serialization.write_atomic(tmp_path / "x", b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(RefilError, match=r"cannot write .*x: File too large"):
            serialization.write_atomic(tmp_path / "x", b"new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "x").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_files_are_written_through_no_link(tmp_path):
    (tmp_path / "victim").write_text("precious")
    for name in ("x", ".x.part"):
        (tmp_path / name).symlink_to(tmp_path / "victim")
    serialization.write_atomic(tmp_path / "x", b"new")
    assert (tmp_path / "victim").read_text() == "precious"
    assert (tmp_path / "x").read_bytes() == b"new"
    assert not (tmp_path / "x").is_symlink()


def test_a_fifo_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "x")
    for read in (serialization.read_text, serialization.read_metadata, lambda path: serialization.read_arrays(path, TREE)):
        with pytest.raises(RefilError, match=r"cannot read .*x: it is a FIFO, not a regular file"):
            read(tmp_path / "x")


def test_text_that_is_not_utf_8_is_refused_with_its_line(tmp_path):
    (tmp_path / "x").write_bytes(b"one\ntwo\xff\n")
    with pytest.raises(RefilError, match=r"cannot read .*x, line 2: invalid start byte"):
        serialization.read_text(tmp_path / "x")


def test_numbers_must_be_finite_where_that_is_asked_for(tmp_path):
    tree = {"model": np.array([1.0, np.inf]), "rest": np.array([np.nan])}
    serialization.write_arrays(tmp_path / "x", tree, {})
    serialization.read_arrays(tmp_path / "x", tree)
    for finite, name in (("", "model"), ("model", "model"), ("rest", "rest")):
        with pytest.raises(RefilError, match=f"x cannot be used: {name} has numbers that are not finite"):
            serialization.read_arrays(tmp_path / "x", tree, finite=finite)


def test_metadata_of_another_kind_are_refused(tmp_path):
    from safetensors.numpy import save_file

    for text in ("[]", '{"config": 5}', "nonsense"):
        save_file({"a": np.zeros(3)}, tmp_path / "x", {serialization.FORMAT: text})
        with pytest.raises(RefilError, match=r"x is damaged: its metadata is not an object of strings|cannot read .*x"):
            serialization.read_metadata(tmp_path / "x")


def test_no_folder_is_created_behind_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "code").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefilError, match=r"cannot write .*env: .*code is a symbolic link"):
        serialization.make_subfolder(tmp_path / "run", tmp_path / "run" / "code" / "env")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    serialization.make_subfolder(tmp_path / "run", tmp_path / "run" / "other" / "env")
    assert (tmp_path / "run" / "other" / "env").is_dir()
