"""The files of a run's models: one per seed, each with the config and the seed that it was trained with."""

import re
import warnings
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TypeVar

import jax
from jaxtyping import PyTree

from refil.errors import RefilError
from refil.storage import metadata, serialization
from refil.training import stored
from refil.training.config import RunConfig

CONFIG = "config.json"
NAME = re.compile(r"model_seed_(0|[1-9][0-9]*)\.safetensors")
Tree = TypeVar("Tree")


def path(folder: Path, seed: int) -> Path:
    """Return the file of the model of a seed."""
    return folder / f"model_seed_{seed}.safetensors"


def find(folder: Path, seeds: Collection[int] | None = None) -> dict[int, Path]:
    """Return the model files of a folder by seed, for these seeds or those of its config (without one: for any seed).

    Other files that are named like models, or almost, are ignored with a warning.
    """
    config, found = folder / CONFIG, {}
    for file in sorted(folder.glob("model_seed_*.safetensors")):
        if seeds is None and config.exists():  # read only where there is a model
            seeds = stored.seeds(stored.parse(serialization.read_text(config), str(config)), str(config))
        if not (name := NAME.fullmatch(file.name)):
            warnings.warn(f"{file} is ignored: models are named model_seed_N.safetensors", stacklevel=4)
        elif seeds is not None and int(name[1]) not in seeds:
            warnings.warn(f"{file} is ignored: the run has no seed {name[1]}", stacklevel=4)
        elif seeds is None and not file.is_file():
            warnings.warn(f"{file} is ignored: it is not a regular file", stacklevel=4)
        else:
            found[int(name[1])] = file
    return dict(sorted(found.items()))


def checksums(folder: Path, seeds: Collection[int] | None = None) -> dict[str, str]:
    """Return the checksums of the models that `find` returns, by the names of their files."""
    return {file.name: serialization.read_metadata(file).get("checksum", "") for file in find(folder, seeds).values()}


def are_among(folder: Path, known: dict[str, str]) -> bool:
    """Return whether the stored models are among those of which the checksums are known; some may not be stored."""
    return checksums(folder).items() <= known.items()


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
    model, values = serialization.read_arrays(file, like, verify, finite="")
    metadata.check_seed(file, seed, values)
    return model
