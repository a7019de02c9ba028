"""Initial weights: a trained model that every seed of a run starts from, kept in the folder of the run."""

import json
import os
from pathlib import Path
from typing import Any

import jax

from refil.errors import RefilError
from refil.storage import model_files, records, serialization
from refil.training.setup import Setup

INIT, MARKER = "init.safetensors", "init.json"  # the second says that the first belongs to the run


def load(path: Path, setup: Setup) -> Any:
    """Read the model of the first seed in the folder of a run, or that in the file of a model; no code of the run is loaded."""
    source = path
    if path.is_dir():
        found = model_files.find(path)
        if not found:
            raise RefilError(f"cannot start from {path}: it has no model")
        source = next(iter(found.values()))
    return _read(source, setup)


def check(model: Any, setup: Setup, name: str) -> None:
    """Raise if a model does not have the networks of a setup."""
    given, needed = _shapes(model), _shapes(_like(setup))
    for leaf in sorted(given.keys() | needed.keys()):
        if given.get(leaf) != needed.get(leaf):
            pair = f"it has {given.get(leaf, 'nothing')} for {leaf}, and this run needs {needed.get(leaf, 'nothing')}"
            raise RefilError(f"cannot start from {name}: {pair}")


def store(folder: Path, model: Any) -> None:
    """Write the model that a new run starts from, and its checksum; None removes what an earlier attempt has left."""
    serialization.remove(folder / MARKER)
    if model is None:
        serialization.remove(folder / INIT)
    else:
        serialization.write_arrays(folder / INIT, model, {})
        checksum = serialization.read_metadata(folder / INIT)["checksum"]
        serialization.write_atomic(folder / MARKER, json.dumps({"checksum": checksum}).encode())


def stored(folder: Path, setup: Setup) -> Any:
    """Return the model that a run starts from, or None if it starts from random weights; raise if it is gone or another one."""
    if os.path.lexists(folder / MARKER):  # version 0.2.0 wrote none
        expected = records.parse_json(serialization.read_bytes(folder / MARKER), folder / MARKER)
        if not (folder / INIT).exists():
            raise RefilError(f"{folder / INIT}, the model that this run starts from, is gone; start it again in another folder")
        if expected != {"checksum": serialization.read_metadata(folder / INIT).get("checksum")}:
            raise RefilError(f"{folder / INIT} is not the model that this run started from, of which {MARKER} has the checksum")
    return _read(folder / INIT, setup) if (folder / INIT).exists() else None


def _read(path: Path, setup: Setup) -> Any:
    try:
        return serialization.read_arrays(path, _like(setup), finite="")[0]
    except RefilError as error:
        raise RefilError(f"cannot start from these weights: {error}") from error


def _like(setup: Setup) -> Any:
    return jax.eval_shape(setup.method.init, jax.random.key(0))


def _shapes(model: Any) -> dict[str, str]:
    leaves = jax.tree.leaves_with_path(model)
    names = (jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves)
    return {name: f"{leaf.dtype}{list(leaf.shape)}" for name, (_, leaf) in zip(names, leaves, strict=True)}
