"""The files of models."""

import numpy as np
import pytest

from refil.errors import RefilError
from refil.storage import model_files, serialization
from tests.tiny_runs import small

MODELS = {"weight": np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)}
LIKE = {"weight": np.zeros(2, np.float32)}


@pytest.fixture
def folder(tmp_path):
    model_files.save(tmp_path, MODELS, [0, 11], small())
    return tmp_path


def test_models_are_found_by_their_seeds(folder):
    assert list(model_files.find(folder)) == [0, 11]
    assert model_files.load(folder, 11, LIKE, small())["weight"].tolist() == [3.0, 4.0]
    assert len(set(model_files.checksums(folder).values())) == 2


@pytest.mark.parametrize("name", ["model_seed_0 (copy).safetensors", "model_seed_00.safetensors", "model_seed_.safetensors"])
def test_files_named_almost_like_a_model_are_skipped_with_a_warning(folder, name):
    (folder / name).write_bytes((folder / "model_seed_0.safetensors").read_bytes())
    with pytest.warns(UserWarning, match="is ignored: models are named model_seed_N.safetensors"):
        assert list(model_files.find(folder)) == [0, 11]


def test_the_model_of_another_seed_is_refused(folder):
    (folder / "model_seed_0.safetensors").write_bytes((folder / "model_seed_11.safetensors").read_bytes())
    with pytest.raises(RefilError, match=r"model_seed_0.safetensors holds the model of seed 11, not of seed 0"):
        model_files.load(folder, 0, LIKE, small())


def test_a_model_of_version_0_2_0_is_loaded_without_its_seed(folder):
    serialization.write_arrays(folder / "model_seed_0.safetensors", LIKE, {"config": small().to_json()})
    assert model_files.load(folder, 0, LIKE, small())["weight"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(folder, value):
    model_files.save(folder, {"weight": np.full((1, 2), value, np.float32)}, [0], small())
    with pytest.raises(RefilError, match=r"model_seed_0.safetensors cannot be used: weight has numbers that are not finite"):
        model_files.load(folder, 0, LIKE, small())
