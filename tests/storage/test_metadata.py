"""Metadata that tie files to their run."""

import json
from pathlib import Path

import pytest

from refil.errors import RefilError
from refil.storage import metadata
from refil.storage.metadata import CheckpointMetadata
from tests.tiny_runs import small

PATH = Path("run/checkpoint.safetensors")
SAVED = CheckpointMetadata(small().to_json(), 1.5, 28, "0123abcd", None)


def test_metadata_read_back():
    assert metadata.parse_saved(SAVED.to_metadata(), PATH) == SAVED
    with_models = SAVED._replace(models={"model_seed_0.safetensors": "0123abcd"})
    assert metadata.parse_saved(with_models.to_metadata(), PATH) == with_models


def test_a_checkpoint_of_version_0_2_0_has_no_checksum_of_its_metrics():
    stored = SAVED.to_metadata()
    del stored["metrics_checksum"]
    assert metadata.parse_saved(stored, PATH) == SAVED._replace(metrics_checksum=None)


@pytest.mark.parametrize("name", ["config", "seconds", "metrics_bytes", "num_uncompressed"])
def test_missing_entries_are_named(name):
    stored = SAVED.to_metadata()
    del stored[name]
    with pytest.raises(RefilError, match=f"run/checkpoint.safetensors is not a checkpoint: its metadata has no '{name}'"):
        metadata.parse_saved(stored, PATH)


@pytest.mark.parametrize(
    "changed",
    [{"metrics_bytes": "-1"}, {"metrics_bytes": "x"}, {"num_uncompressed": "[]"}, {"seconds": ""}, {"models": "3"}],
    ids=str,
)
def test_impossible_entries_are_refused(changed):
    with pytest.raises(RefilError, match=r"run/checkpoint.safetensors is damaged"):
        metadata.parse_saved(SAVED.to_metadata() | changed, PATH)


def test_another_seed_in_the_config_is_named():
    with pytest.raises(RefilError, match=r"was saved with train.seed 0, but the config has train.seed 5"):
        metadata.check_config(PATH, small(seed=5), SAVED.to_metadata())
    with pytest.raises(RefilError, match=r"was saved with train.seed 0, but the config has train.seed 5"):
        metadata.check_stored_config(PATH, SAVED.config, small(seed=5).to_json())
    metadata.check_stored_config(PATH, SAVED.config, small(steps=999, log_every=3).to_json())


def test_a_stored_config_may_lack_options_that_were_added_later():
    stored = json.loads(SAVED.config)
    del stored["env"]["random_actions"]
    metadata.check_config(PATH, small(), {"config": json.dumps(stored)})


def test_a_model_of_another_seed_is_refused():
    metadata.check_seed(PATH, 3, {"seed": "3"})
    metadata.check_seed(PATH, 3, {})  # of version 0.2.0
    with pytest.raises(RefilError, match="holds the model of seed 3, not of seed 4"):
        metadata.check_seed(PATH, 4, {"seed": "3"})
