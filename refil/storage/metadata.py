"""Metadata of checkpoints and models, which tie them to their run: its config, its metrics, and flags of JAX."""

import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from refil.errors import RefilError
from refil.storage import serialization
from refil.storage.records import is_count
from refil.training import config as configs
from refil.training import flags, stored
from refil.training.config import RunConfig


class CheckpointMetadata(NamedTuple):
    """Metadata of a checkpoint.

    It covers the first `metrics_bytes` bytes of the metrics, with their checksum (None in files of version 0.2.0).
    `num_uncompressed` is the number of episodes stored uncompressed in a compressed replay buffer (None: all are). `models` are
    the checksums of the models that were saved with it, by file (None in files of version 0.2.0).
    """

    config: str
    seconds: float
    metrics_bytes: int
    metrics_checksum: str | None
    num_uncompressed: int | None
    models: dict[str, str] | None = None

    def to_metadata(self) -> dict[str, str]:
        """Return the strings to store, with the flags of this process."""
        numbers = {"metrics_bytes": str(self.metrics_bytes), "num_uncompressed": json.dumps(self.num_uncompressed)}
        numbers |= {"seconds": repr(self.seconds), "metrics_checksum": self.metrics_checksum or ""}
        texts = {"config": self.config, "flags": json.dumps(flags.effective()), "models": json.dumps(self.models)}
        return texts | numbers


def parse_saved(metadata: dict[str, str], path: Path) -> CheckpointMetadata:
    """Return what the metadata of a checkpoint says."""
    try:
        uncompressed, size = json.loads(metadata["num_uncompressed"]), int(metadata["metrics_bytes"])
        seconds, config = float(metadata["seconds"]), metadata["config"]
        models = json.loads(metadata.get("models", "null"))
    except KeyError as error:
        raise RefilError(f"{path} is not a checkpoint: its metadata has no {error}") from error
    except (ValueError, RecursionError) as error:
        raise RefilError(f"{path} is damaged: {error} in its metadata") from error
    if not is_count(size) or not (uncompressed is None or is_count(uncompressed)):
        raise RefilError(f"{path} is damaged: metrics_bytes {size} and num_uncompressed {uncompressed!r} in its metadata")
    if not isinstance(models, dict | None):
        raise RefilError(f"{path} is damaged: models {models!r} in its metadata")
    return CheckpointMetadata(config, seconds, size, metadata.get("metrics_checksum"), uncompressed, models)


def read_saved(path: Path) -> CheckpointMetadata:
    """Read the metadata of a checkpoint."""
    return parse_saved(serialization.read_metadata(path), path)


def check_config(path: Path, config: RunConfig, metadata: dict[str, str]) -> None:
    """Raise if a file was saved with another config, apart from options that may change when a run is resumed."""
    _check_same(path, configs.compare(metadata.get("config", ""), str(path), config))


def check_stored_config(path: Path, saved: str, requested: str) -> None:
    """Raise if a file was saved with another config than the stored one; neither is interpreted, so that no code runs."""
    _check_same(path, stored.differences(saved, requested))
    if lacking := stored.lacking(saved, requested):
        raise RefilError(f"{path} was saved with {', '.join(lacking)}, which the config lacks")


def check_seed(path: Path, seed: int, metadata: dict[str, str]) -> None:
    """Raise if a file holds the model of another seed; version 0.2.0 did not store it."""
    if metadata.get("seed", str(seed)) != str(seed):
        raise RefilError(f"{path} holds the model of seed {metadata['seed']}, not of seed {seed}")


def warn_about_flags(path: Path, metadata: dict[str, str]) -> None:
    """Warn if a file was saved under other flags than those of this process."""
    for name, now in flags.effective().items():
        if (saved := json.loads(metadata.get("flags", "{}")).get(name)) != now:
            warnings.warn(f"{path} was saved with {name} {saved!r}, not {now!r}: results may round differently", stacklevel=3)


def _check_same(path: Path, differences: dict[str, tuple[Any, Any]]) -> None:
    for name, (old, new) in differences.items():
        if not configs.is_changeable(name):
            raise RefilError(f"{path} was saved with {name} {old}, but the config has {name} {new}")
