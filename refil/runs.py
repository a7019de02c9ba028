"""A run's folder: everything that is written to disk and read back, and how it stays whole.

    config.json           the experiment, as `refil train --config` reads it
    metrics.jsonl         one line per report of a seed
    training.safetensors  all that training goes on from
    model_seed_N.safetensors   one seed's model
    by_task.json          how often each task was won, once `refil evaluate --by-task` has played them
    lock                  held by the process that trains here

Files other than the metrics, which only grow, are replaced whole. Nothing is pickled.
"""

import contextlib
import fcntl
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

from refil import experiment
from refil.experiment import Experiment
from refil.settings import Refused
from refil.types import Model

CONFIG, METRICS, TRAINING, LOCK, CURVE = "config.json", "metrics.jsonl", "training.safetensors", "lock", "learning_curve.png"
BY_TASK = "by_task.json"
KIND = "refil 1"  # written into every file of arrays, so that a foreign one is told apart
Tree = TypeVar("Tree")


class Run:
    """A run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def experiment(self) -> Experiment:
        """What is trained here."""
        return experiment.read(read_text(self.path / CONFIG), str(self.path / CONFIG))

    @property
    def seeds(self) -> list[int]:
        """The seeds that have a model here."""
        return sorted(int(path.stem.removeprefix("model_seed_")) for path in self.path.glob("model_seed_*.safetensors"))

    def metrics(self) -> list[dict[str, Any]]:
        """All lines written so far; one cut off by a crash is no line."""
        lines = read_text(self.path / METRICS).splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def append(self, lines: list[dict[str, Any]]) -> None:
        """Add lines to the metrics."""
        with saying_what_failed(self.path / METRICS), (self.path / METRICS).open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))

    def by_task(self) -> dict[str, list[float]]:
        """Each task's share of episodes won, one for every seed; it holds for the models that are there."""
        if not (self.path / BY_TASK).exists():
            raise Refused(f"{self.path} has no {BY_TASK} yet: 'refil evaluate {self.path} --by-task' plays every task")
        played = json.loads(read_text(self.path / BY_TASK))
        return {task: [won / played["episodes"] for won in seeds] for task, seeds in played["won"].items()}

    def keep_by_task(self, episodes: int, won: dict[str, list[int]]) -> None:
        """Keep how many of so many episodes of each task every seed has won."""
        write_whole(self.path / BY_TASK, (json.dumps({"episodes": episodes, "won": won}) + "\n").encode())

    @property
    def saved(self) -> bool:
        """Whether there is anything to go on from."""
        return (self.path / TRAINING).exists()

    def restart(self) -> None:
        """Forget metrics of a start that was never saved."""
        write_whole(self.path / METRICS, b"")

    def save(self, training: PyTree, seconds: float, condensed: bool = False) -> None:
        """Write all that training goes on from, its episodes condensed or whole, and how long the metrics are at this point."""
        length = (self.path / METRICS).stat().st_size
        notes = {"metrics_bytes": str(length), "seconds": repr(seconds), "condensed": str(condensed)}
        write_arrays(self.path / TRAINING, training, notes)

    @property
    def condensed(self) -> bool:
        """Whether the episodes saved last are condensed."""
        return read_notes(self.path / TRAINING).get("condensed") == str(True)

    def restore(self, like: Tree) -> tuple[Tree, float]:
        """What was saved last, as a tree like this one, and the seconds trained; metrics written later are cut off."""
        training, notes = read_arrays(self.path / TRAINING, like)
        length, metrics = int(notes["metrics_bytes"]), self.path / METRICS
        if metrics.exists() and metrics.stat().st_size >= length:
            with saying_what_failed(metrics):
                os.truncate(metrics, length)
        elif length:
            raise Refused(f"{metrics} is shorter than it was when {TRAINING} was written; the two do not belong together")
        return training, float(notes["seconds"])

    def save_models(self, models: Model, seeds: list[int]) -> None:
        """One file for each seed; it also says what it was trained for. What other models won by task is no longer true."""
        (self.path / BY_TASK).unlink(missing_ok=True)
        models, parts = jax.device_get(models), json.dumps(self.experiment.parts())
        for row, seed in enumerate(seeds):
            model = jax.tree.map(lambda leaf, row=row: leaf[row], models)
            write_arrays(self.path / f"model_seed_{seed}.safetensors", model, {"trained": parts})

    def load_models(self, like: Model) -> Model:
        """All seeds' models with a leading axis; `like` is one seed's."""
        if not self.seeds:
            raise Refused(f"{self.path} has no model yet")
        rows = [read_arrays(self.path / f"model_seed_{seed}.safetensors", like)[0] for seed in self.seeds]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *rows)


def create(path: Path, config: Experiment) -> Run:
    """A new run's folder."""
    if (path / CONFIG).exists():
        raise Refused(f"{path} holds a run already: 'refil train --resume {path}' continues it, or choose another --out")
    make_folder(path)
    write_whole(path / CONFIG, config.to_json().encode())
    return Run(path)


def existing(path: Path) -> Run:
    """A folder that holds a run."""
    if not (path / CONFIG).is_file():
        raise Refused(f"{path} holds no run: there is no {path / CONFIG}")
    return Run(path)


def make_folder(path: Path) -> None:
    """A folder to write to."""
    with saying_what_failed(path):
        path.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of a run's folder; the lock goes with its process, however that ends."""
    make_folder(path)
    with saying_what_failed(path / LOCK):
        file = (path / LOCK).open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"another process is training in {path}") from None
        yield


@contextlib.contextmanager
def saying_what_failed(path: Path) -> Iterator[None]:
    """Turn an error of the disk into one that names the file."""
    try:
        yield
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror or error}") from error


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader, or a crash, finds the old content or the new."""
    part = path.with_name(f".{path.name}.part")
    with saying_what_failed(path):
        try:
            with part.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def save_figure(figure: Any, path: Path) -> None:
    """A picture in the format that the path's ending names."""
    kind = path.suffix.removeprefix(".")
    formats = figure.canvas.get_supported_filetypes()
    if kind not in formats:
        raise Refused(f"{path} should end in one of {', '.join(f'.{name}' for name in sorted(formats))}")
    content = io.BytesIO()
    figure.savefig(content, format=kind)
    write_whole(path, content.getvalue())


def read_text(path: Path) -> str:
    """A text file of a run."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read {path}: {error}") from error


def write_arrays(path: Path, tree: PyTree, notes: dict[str, str]) -> None:
    """A tree of arrays as one file, with a checksum over all of it."""
    arrays = named(jax.device_get(tree))
    notes = notes | {"checksum": checksum(arrays, notes)}
    # One entry, because the format keeps several in no fixed order, and the same content should be the same bytes.
    write_whole(path, to_bytes(arrays, {KIND: json.dumps(notes, sort_keys=True)}))


def read_notes(path: Path) -> dict[str, str]:
    """The notes written with a tree of arrays."""
    try:
        with safe_open(path, framework="numpy") as file:
            notes = json.loads((file.metadata() or {}).get(KIND, "null"))
    except (OSError, SafetensorError, ValueError) as error:
        raise Refused(f"cannot read {path}: {error}") from error
    if notes is None:
        raise Refused(f"{path} was not written by this version of refil")
    return notes


def read_arrays(path: Path, like: Tree) -> tuple[Tree, dict[str, str]]:
    """A tree of the same names, shapes and types as `like`, read back, and the notes written with it."""
    notes = read_notes(path)
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    except (OSError, SafetensorError, ValueError) as error:
        raise Refused(f"cannot read {path}: {error}") from error
    if notes.pop("checksum", None) != checksum(arrays, notes):
        raise Refused(f"{path} is damaged: its checksum does not fit")
    for name, leaf in named(like).items():
        found = arrays.get(name)
        if found is None or found.shape != leaf.shape or found.dtype != leaf.dtype:
            have = "nothing" if found is None else f"{found.dtype}{list(found.shape)}"
            raise Refused(f"{path} does not fit its run's config: it has {have} for {name}, not {leaf.dtype}{list(leaf.shape)}")
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
