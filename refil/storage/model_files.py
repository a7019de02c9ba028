"""The files of a run's models: one per seed, each with the config and the seed that it was trained with."""

import re
import warnings
from functools import partial
from pathlib import Path
from typing import TypeVar

import jax
from jaxtyping import PyTree

from refil.storage import metadata, serialization
from refil.training.config import RunConfig

NAME = re.compile(r"model_seed_(0|[1-9][0-9]*)\.safetensors")
Tree = TypeVar("Tree")


def find(folder: Path) -> dict[int, Path]:
    """Return the model files of a folder by seed; warn about files that are named almost like one."""
    found = {}
    for path in folder.glob("model_seed_*.safetensors"):
        if name := NAME.fullmatch(path.name):
            found[int(name[1])] = path
        else:
            warnings.warn(f"{path} is ignored: models are named model_seed_N.safetensors", stacklevel=4)
    return dict(sorted(found.items()))


def checksums(folder: Path) -> dict[str, str]:
    """Return the checksums of all models by the names of their files."""
    return {path.name: serialization.read_metadata(path).get("checksum", "") for path in find(folder).values()}


def save(folder: Path, models: PyTree, seeds: list[int], config: RunConfig) -> None:
    """Write one file per seed; the leading axis of all arrays is the seeds."""
    models, text = jax.device_get(models), config.to_json()
    for row, seed in enumerate(seeds):
        model = jax.tree.map(lambda leaf, row=row: leaf[row], models)
        serialization.write_arrays(_path(folder, seed), model, {"config": text, "seed": str(seed)})


def load(folder: Path, seed: int, like: Tree, config: RunConfig) -> Tree:
    """Return the model of one seed, shaped as `like`; raise if it is not finite or belongs to another config or seed."""
    path = _path(folder, seed)
    verify = partial(metadata.check_config, path, config)
    model, stored = serialization.read_arrays(path, like, verify, finite="")
    metadata.check_seed(path, seed, stored)
    return model


def _path(folder: Path, seed: int) -> Path:
    return folder / f"model_seed_{seed}.safetensors"
