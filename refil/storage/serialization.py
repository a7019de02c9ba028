"""Files that are whole or not there: text, pictures, and trees of arrays with a checksum. Nothing is pickled."""

import contextlib
import io
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from refil.errors import RefilError

KIND = "refil 1"  # written into every file of arrays, so that a foreign one is told apart
Tree = TypeVar("Tree")


def make_folder(path: Path) -> None:
    """A folder to write to."""
    with wrap_os_errors(path):
        path.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def wrap_os_errors(path: Path) -> Iterator[None]:
    """Turn an error of the disk into one that names the file."""
    try:
        yield
    except OSError as error:
        raise RefilError(f"cannot write {path}: {error.strerror or error}") from error


def write_atomic(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader, or a crash, finds the old content or the new."""
    part = path.with_name(f".{path.name}.part")
    with wrap_os_errors(path):
        try:
            with part.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def fsync(path: Path) -> None:
    """What has been written to a file stays there, even if the machine stops at once."""
    with wrap_os_errors(path), path.open("rb") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def require_matplotlib() -> Iterator[None]:
    """Say how to get what draws, where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("matplotlib", "PIL"):
            raise
        raise RefilError("pictures need the extra: pip install 'refil[plot]'") from error


def save_figure(figure: Any, path: Path) -> None:
    """A picture in the format that the path's ending names."""
    kind = path.suffix.removeprefix(".")
    formats = figure.canvas.get_supported_filetypes()
    if kind not in formats:
        raise RefilError(f"{path} should end in one of {', '.join(f'.{name}' for name in sorted(formats))}")
    content = io.BytesIO()
    figure.savefig(content, format=kind)
    write_atomic(path, content.getvalue())


def read_text(path: Path) -> str:
    """A text file of a run."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise RefilError(f"cannot read {path}: {error}") from error


def write_arrays(path: Path, tree: PyTree, notes: dict[str, str]) -> None:
    """A tree of arrays as one file, with a checksum over all of it."""
    arrays = named(jax.device_get(tree))
    notes = notes | {"checksum": checksum(arrays, notes)}
    # One entry, because the format keeps several in no fixed order, and the same content should be the same bytes.
    write_atomic(path, to_bytes(arrays, {KIND: json.dumps(notes, sort_keys=True)}))


def read_notes(path: Path) -> dict[str, str]:
    """The notes written with a tree of arrays."""
    try:
        with safe_open(path, framework="numpy") as file:
            notes = json.loads((file.metadata() or {}).get(KIND, "null"))
    except (OSError, SafetensorError, ValueError) as error:
        raise RefilError(f"cannot read {path}: {error}") from error
    if notes is None:
        raise RefilError(f"{path} was not written by this version of refil")
    return notes


def read_arrays(path: Path, like: Tree) -> tuple[Tree, dict[str, str]]:
    """A tree of the same names, shapes and types as `like`, read back, and the notes written with it."""
    notes = read_notes(path)
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    except (OSError, SafetensorError, ValueError) as error:
        raise RefilError(f"cannot read {path}: {error}") from error
    if notes.pop("checksum", None) != checksum(arrays, notes):
        raise RefilError(f"{path} is damaged: its checksum does not fit")
    for name, leaf in named(like).items():
        found = arrays.get(name)
        if found is None or found.shape != leaf.shape or found.dtype != leaf.dtype:
            have = "nothing" if found is None else f"{found.dtype}{list(found.shape)}"
            raise RefilError(
                f"{path} does not fit its run's config: it has {have} for {name}, not {leaf.dtype}{list(leaf.shape)}"
            )
    leaves = [arrays[name] for name in named(like)]
    return jax.tree.unflatten(jax.tree.structure(like), leaves), notes


def named(tree: PyTree) -> dict[str, Any]:
    """Every leaf by its path in the tree."""
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in jax.tree.leaves_with_path(tree)}


def checksum(arrays: dict[str, np.ndarray], notes: dict[str, str]) -> str:
    """One number over names, types, shapes, contents and notes."""
    total = zlib.crc32(json.dumps(notes, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), total)
        total = zlib.crc32(array.reshape(-1).view(np.uint8), total)
    return f"{total:08x}"
