"""Files of trajectories: what is written is read, and damaged files are refused."""

import numpy as np
import pytest

from refil import datasets
from refil.errors import RefilError
from refil.storage import serialization

ARRAYS = {
    "entities": np.arange(2 * 3 * 2 * 4, dtype=np.float32).reshape(2, 3, 2, 4),
    "present": np.ones((2, 3, 2), bool),
    "alive": np.ones((2, 3, 2), bool),
    "visible": np.ones((2, 3, 1, 2), bool),
    "available": np.ones((2, 3, 1, 5), bool),
    "actions": np.array([[[0], [4]], [[1], [0]]], np.int32),
    "rewards": np.array([[0.5, 1.0], [2.0, 0.0]], np.float32),
    "terminated": np.array([[False, True], [True, False]]),
    "valid": np.array([[True, True], [True, False]]),
    "won": np.array([True, False]),
    "task": np.array([3, 0], np.int32),
}
ABOUT = {"env": "mine", "seed": 1}


def dataset(**changes) -> datasets.Dataset:
    return datasets.Dataset(**(ARRAYS | changes), metadata=ABOUT)


@pytest.mark.parametrize("suffix", datasets.SUFFIXES)
def test_what_is_written_is_read(tmp_path, suffix):
    path = tmp_path / f"data.{suffix}"
    datasets.write_dataset(dataset(), path)
    first = path.read_bytes()
    found = datasets.read_dataset(path)
    assert len(found) == 2
    assert found.metadata == ABOUT
    for name, array in found.arrays.items():
        np.testing.assert_array_equal(array, ARRAYS[name])
        assert array.dtype == ARRAYS[name].dtype
    datasets.write_dataset(dataset(), path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("suffix", datasets.SUFFIXES)
def test_damage_is_refused_or_harmless(tmp_path, suffix):
    path = tmp_path / f"data.{suffix}"
    datasets.write_dataset(dataset(), path)
    content, refused = path.read_bytes(), 0
    for position in range(5, len(content), 41):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        path.write_bytes(bytes(damaged))
        try:
            found = datasets.read_dataset(path)  # a zip file has times and other fields that mean nothing here
        except RefilError:
            refused += 1
        else:
            assert all((array == ARRAYS[name]).all() for name, array in found.arrays.items())
    assert refused > len(range(5, len(content), 41)) // 3
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(RefilError, match=r"damaged|cannot read"):
        datasets.read_dataset(path)


def test_arrays_that_do_not_fit_together_are_refused(tmp_path):
    path = tmp_path / "data.safetensors"
    for changes, message in (
        ({"task": np.zeros(3, np.int32)}, "task has 3 episodes, other arrays have 2"),
        ({"won": np.ones((2, 1), bool)}, r"won is bool\[2, 1\], not bool with 1 axes"),
        ({name: ARRAYS[name][:, :1] for name in ("actions", "rewards", "terminated", "valid")}, "3 timesteps for 1 actions"),
    ):
        serialization.write_arrays(path, ARRAYS | changes, {"format": datasets.FORMAT, "about": "{}"})
        with pytest.raises(RefilError, match=message):
            datasets.read_dataset(path)


def test_other_files_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", values=np.ones(3))
    with pytest.raises(RefilError, match="is not a dataset of refil"):
        datasets.read_dataset(tmp_path / "other.npz")
    with pytest.raises(RefilError, match="cannot read"):
        datasets.read_dataset(tmp_path / "none.npz")
    with pytest.raises(RefilError, match=r"should end in \.npz or \.safetensors"):
        datasets.write_dataset(dataset(), tmp_path / "data.txt")
