"""The files of a run's models: one per seed, each with the config and the seed that it was trained with."""

import re
import warnings
from functools import partial
from pathlib import Path
from typing import TypeVar

import jax
from jaxtyping import PyTree

from refil.errors import RefilError
from refil.storage import metadata, serialization
from refil.training.config import RunConfig

NAME = re.compile(r"model_seed_(0|[1-9][0-9]*)\.safetensors")
Tree = TypeVar("Tree")


def path(folder: Path, seed: int) -> Path:
    """Return the file of the model of a seed."""
    return folder / f"model_seed_{seed}.safetensors"


def find(folder: Path) -> dict[int, Path]:
    """Return the model files of a folder by seed; warn about files that are named almost like one."""
    found = {}
    for file in folder.glob("model_seed_*.safetensors"):
        if name := NAME.fullmatch(file.name):
            found[int(name[1])] = file
        else:
            warnings.warn(f"{file} is ignored: models are named model_seed_N.safetensors", stacklevel=4)
    return dict(sorted(found.items()))


def checksums(folder: Path) -> dict[str, str]:
    """Return the checksums of all models by the names of their files."""
    return {file.name: serialization.read_metadata(file).get("checksum", "") for file in find(folder).values()}


def is_saved(folder: Path, seed: int, models: dict[str, str]) -> bool:
    """Return whether the stored model of a seed has the checksum given for its file."""
    file = path(folder, seed)
    try:
        return models.get(file.name) == serialization.read_metadata(file).get("checksum")
    except RefilError:
        return False


def save(folder: Path, models: PyTree, seeds: list[int], config: RunConfig) -> None:
    """Write one file per seed; the leading axis of all arrays is the seeds."""
    models, text = jax.device_get(models), config.to_json()
    for row, seed in enumerate(seeds):
        model = jax.tree.map(lambda leaf, row=row: leaf[row], models)
        serialization.write_arrays(path(folder, seed), model, {"config": text, "seed": str(seed)})


def load(folder: Path, seed: int, like: Tree, config: RunConfig) -> Tree:
    """Return the model of one seed, shaped as `like`; raise if it is not finite or belongs to another config or seed."""
    file = path(folder, seed)
    verify = partial(metadata.check_config, file, config)
    model, stored = serialization.read_arrays(file, like, verify, finite="")
    metadata.check_seed(file, seed, stored)
    return model
