"""Files that are whole or not there."""

import resource

import numpy as np
import pytest

from refil.errors import RefilError
from refil.storage import serialization

TREE = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": {"c": np.array([True, False]), "d": np.int32(7)}}


def test_arrays_come_back_as_they_were(tmp_path):
    serialization.write_arrays(tmp_path / "x", TREE, {"note": "hello"})
    tree, notes = serialization.read_arrays(tmp_path / "x", TREE)
    assert notes == {"note": "hello"}
    np.testing.assert_array_equal(tree["a"], TREE["a"])
    assert tree["b"]["d"] == 7
    assert [path.name for path in tmp_path.iterdir()] == ["x"]  # no part of a file stays behind


@pytest.mark.parametrize("keep", [0, 5, 100, 250])
def test_a_truncated_file_is_refused(tmp_path, keep):
    serialization.write_arrays(tmp_path / "x", TREE, {})
    content = (tmp_path / "x").read_bytes()
    (tmp_path / "x").write_bytes(content[: min(keep, len(content) - 1)])
    with pytest.raises(RefilError, match="x"):
        serialization.read_arrays(tmp_path / "x", TREE)


def test_any_flipped_byte_is_noticed(tmp_path):
    serialization.write_arrays(tmp_path / "x", TREE, {"note": "hello"})
    content = (tmp_path / "x").read_bytes()
    for place in range(len(content)):
        broken = bytearray(content)
        broken[place] ^= 0x01
        (tmp_path / "x").write_bytes(bytes(broken))
        try:
            tree, notes = serialization.read_arrays(tmp_path / "x", TREE)
        except RefilError:
            continue
        assert notes == {"note": "hello"}  # white space in the header may change without harm
        np.testing.assert_array_equal(tree["a"], TREE["a"])


def test_a_foreign_file_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(3)}, tmp_path / "x")
    with pytest.raises(RefilError, match="not written by this version"):
        serialization.read_arrays(tmp_path / "x", TREE)


def test_a_file_of_other_shapes_is_refused_by_name(tmp_path):
    serialization.write_arrays(tmp_path / "x", TREE, {})
    with pytest.raises(RefilError, match=r"float32\[2, 3\] for a, not float32\[3\]"):
        serialization.read_arrays(tmp_path / "x", TREE | {"a": np.zeros(3, np.float32)})
    with pytest.raises(RefilError, match="nothing for e"):
        serialization.read_arrays(tmp_path / "x", TREE | {"e": np.zeros(3, np.float32)})


def test_a_disk_that_takes_no_more_leaves_the_old_file(tmp_path):
    """A limit on file sizes stands for a full disk: writing stops in the middle."""
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
