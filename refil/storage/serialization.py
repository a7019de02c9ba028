"""Files that are replaced atomically: text, figures, and pytrees of arrays with a checksum. Nothing is pickled."""

import contextlib
import io
import json
import os
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from refil.errors import RefilError, needs_extra
from refil.storage import regular

FORMAT = "refil 2"  # the metadata key of every file of arrays, which identifies its format
OLD_FORMAT = "refil 1"  # written by version 0.1
Tree = TypeVar("Tree")


def make_folder(path: Path) -> None:
    """Create a folder and its parents."""
    with wrap_os_errors(path):
        path.mkdir(parents=True, exist_ok=True)


def make_subfolder(root: Path, path: Path) -> None:
    """Create a folder below `root`; raise if it, or one on the way, is a symbolic link to somewhere else."""
    for folder in (path, *path.parents):
        if folder == root:
            break
        if folder.is_symlink():
            raise RefilError(f"cannot write {path}: {folder} is a symbolic link")
    make_folder(path)


@contextlib.contextmanager
def wrap_os_errors(path: Path, action: Literal["read", "write"] = "write") -> Iterator[None]:
    """Turn errors of the file system into ones that name the file."""
    try:
        yield
    except OSError as error:
        raise RefilError(f"cannot {action} {path}: {error.strerror or error}") from error


def write_atomic(path: Path, content: bytes) -> None:
    """Replace a file atomically: readers, also after a crash, find either the old content or the new."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")  # nobody can place a link where it will be
    with wrap_os_errors(path):
        try:
            with regular.open_file(part, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def remove(path: Path) -> None:
    """Remove a file if it exists."""
    with wrap_os_errors(path):
        path.unlink(missing_ok=True)


def fsync(path: Path) -> None:
    """Flush a file to disk, so that its content survives a crash of the machine."""
    with wrap_os_errors(path), regular.open_file(path) as file:
        os.fsync(file.fileno())


def require_matplotlib() -> contextlib.AbstractContextManager[None]:
    """Say how to install the plotting libraries where they are missing."""
    return needs_extra("drawing a figure", "plot", "matplotlib", "PIL")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure in the format of the path's suffix."""
    check_suffix(path, figure.canvas.get_supported_filetypes())
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.removeprefix("."))
    write_atomic(path, content.getvalue())


def check_figure_path(path: Path) -> None:
    """Raise if no figure can be written to a path, before it is drawn."""
    with require_matplotlib():
        from matplotlib.backend_bases import FigureCanvasBase

    check_suffix(path, FigureCanvasBase.get_supported_filetypes())
    check_folder(path)


def check_suffix(path: Path, formats: Iterable[str]) -> None:
    """Raise if a path does not end in one of these formats."""
    if path.suffix.removeprefix(".") not in formats:
        raise RefilError(f"{path} should end in {' or '.join(f'.{name}' for name in sorted(formats))}")


def check_folder(path: Path) -> None:
    """Raise if a file cannot be written because of its folder or because it is one itself."""
    if path.is_dir():
        raise RefilError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise RefilError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise RefilError(f"cannot write {path}: the folder {path.parent} is not writable")


def read_bytes(path: Path) -> bytes:
    """Read a regular file."""
    with _wrap_read_errors(path), regular.open_file(path) as file:
        return file.read()


def read_text(path: Path) -> str:
    """Read a text file."""
    content = read_bytes(path)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RefilError(f"cannot read {path}, line {line}: {error.reason} in text that should be UTF-8") from error


def write_arrays(path: Path, tree: PyTree, metadata: dict[str, str]) -> None:
    """Write a pytree of arrays and metadata to one file, with a checksum over both."""
    arrays = {name: np.require(array, requirements="C") for name, array in named_leaves(jax.device_get(tree)).items()}
    metadata = metadata | {"checksum": checksum(arrays, metadata)}
    # The safetensors format stores several metadata entries in no fixed order; a single one makes files reproducible.
    write_atomic(path, to_bytes(arrays, {FORMAT: json.dumps(metadata, sort_keys=True)}))


def read_metadata(path: Path) -> dict[str, str]:
    """Read the metadata of a file of arrays."""
    with _wrap_read_errors(path):
        regular.check(path)
        with safe_open(path, framework="numpy") as file:
            stored = file.metadata() or {}
            metadata = json.loads(stored.get(FORMAT, "null"))
    if OLD_FORMAT in stored:
        raise RefilError(f"{path} was written by refil 0.1, whose checkpoints and models this version cannot read")
    if metadata is None:
        raise RefilError(f"{path} is not a checkpoint or model of refil: it has no {FORMAT!r} in its metadata")
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise RefilError(f"{path} is damaged: its metadata is not an object of strings")
    return metadata


def read_raw(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read all arrays of a file by their names, and its metadata; raise if the checksum does not match."""
    metadata = read_metadata(path)
    with _wrap_read_errors(path), safe_open(path, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    if metadata.pop("checksum", None) != checksum(arrays, metadata):
        raise RefilError(f"{path} is damaged: its checksum does not match its content")
    return arrays, metadata


def read_arrays(
    path: Path, like: Tree, verify: Callable[[dict[str, str]], None] | None = None, finite: str | None = None
) -> tuple[Tree, dict[str, str]]:
    """Read a pytree with the names, shapes and dtypes of `like`, and the metadata stored with it.

    `verify` gets the metadata before shapes are compared, and may raise an error that says more. Numbers must be finite in
    arrays whose names start with `finite` ("": all).
    """
    arrays, metadata = read_raw(path)
    if verify is not None:
        verify(metadata)
    for name, leaf in named_leaves(like).items():
        found = arrays.get(name)
        if found is None or found.shape != leaf.shape or found.dtype != leaf.dtype:
            actual = "nothing" if found is None else f"{found.dtype}{list(found.shape)}"
            raise RefilError(f"{path} does not match the run: it has {actual} for {name}, not {leaf.dtype}{list(leaf.shape)}")
        if finite is not None and name.startswith(finite):
            _check_finite(path, name, found)
    leaves = [arrays[name] for name in named_leaves(like)]
    return jax.tree.unflatten(jax.tree.structure(like), leaves), metadata


@contextlib.contextmanager
def _wrap_read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RefilError(f"cannot read {path}: {error.strerror or error}") from error
    except (SafetensorError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise RefilError(f"cannot read {path}: {error}") from error


def _check_finite(path: Path, name: str, array: np.ndarray) -> None:
    if jnp.issubdtype(array.dtype, jnp.inexact) and not np.isfinite(array).all():
        raise RefilError(f"{path} cannot be used: {name} has numbers that are not finite")


def named_leaves(tree: PyTree) -> dict[str, Any]:
    """Return the leaves of a pytree by their paths, as they are named in files."""
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in jax.tree.leaves_with_path(tree)}


def checksum(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> str:
    """Return a checksum over arrays, their names and metadata."""
    total = zlib.crc32(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), total)
        total = zlib.crc32(array.reshape(-1).view(np.uint8).data, total)
    return f"{total:08x}"
