"""A run's folder: everything that is written to disk and read back, and how it stays whole.

    config.json           the experiment, as `refil train --config` reads it
    metrics.jsonl         one line per report of a seed
    training.safetensors  all that training goes on from
    model_seed_N.safetensors   one seed's model
    unsaved               there from a start on until everything has been saved once
    earlier_1/            what there was of a start that was killed before that
    by_task.json          how often each task was won, once `refil evaluate --by-task` has played them
    lock                  held by the process that trains here

Files other than the metrics, which only grow, are replaced whole. Nothing is pickled.
"""

import contextlib
import fcntl
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree

from refil.errors import RefilError
from refil.storage import serialization
from refil.training import config
from refil.training.config import Experiment
from refil.types import Model

CONFIG, METRICS, TRAINING, LOCK, CURVE = "config.json", "metrics.jsonl", "training.safetensors", "lock", "learning_curve.png"
BY_TASK, UNSAVED = "by_task.json", "unsaved"
Tree = TypeVar("Tree")


class Run:
    """A run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def experiment(self) -> Experiment:
        """What is trained here."""
        return config.read(serialization.read_text(self.path / CONFIG), str(self.path / CONFIG))

    def keep_experiment(self, asked: Experiment) -> None:
        """Note what is trained here."""
        serialization.write_atomic(self.path / CONFIG, asked.to_json().encode())

    @property
    def seeds(self) -> list[int]:
        """The seeds that have a model here."""
        return sorted(int(path.stem.removeprefix("model_seed_")) for path in self.models())

    def models(self) -> list[Path]:
        """The models' files."""
        return sorted(self.path.glob("model_seed_*.safetensors"))

    def models_written(self) -> list[int]:
        """When each of them was, which is another time for another model."""
        return [path.stat().st_mtime_ns for path in self.models()]

    def metrics(self) -> list[dict[str, Any]]:
        """All lines written so far; one cut off by a crash is no line."""
        lines = serialization.read_text(self.path / METRICS).splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def append(self, lines: list[dict[str, Any]]) -> None:
        """Add lines to the metrics."""
        with serialization.wrap_os_errors(self.path / METRICS), (self.path / METRICS).open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))

    def by_task(self) -> dict[str, list[float]]:
        """Each task's share of episodes won, one for every seed; it holds for the models that are there."""
        if not (self.path / BY_TASK).exists():
            raise RefilError(f"{self.path} has no {BY_TASK} yet: 'refil evaluate {self.path} --by-task' plays every task")
        played = json.loads(serialization.read_text(self.path / BY_TASK))
        return {task: [won / played["episodes"] for won in seeds] for task, seeds in played["won"].items()}

    def keep_by_task(self, episodes: int, won: dict[str, list[int]]) -> None:
        """Keep how many of so many episodes of each task every seed has won."""
        serialization.write_atomic(self.path / BY_TASK, (json.dumps({"episodes": episodes, "won": won}) + "\n").encode())

    @property
    def saved(self) -> bool:
        """Whether there is anything to go on from."""
        return (self.path / TRAINING).exists()

    def restart(self) -> Path | None:
        """Begin with empty metrics; what there is of a start that was never saved goes into a folder of its own.

        Metrics of another run, whose other files have been left away, are refused.
        """
        there = [self.path / METRICS, self.path / BY_TASK, *self.models()]
        left = [path for path in there if path.exists() and path.stat().st_size]
        if left and not (self.path / UNSAVED).exists():
            again = f"'refil train --config {self.path / CONFIG} --out DIR' trains it anew"
            raise RefilError(f"{self.path} has no {TRAINING} to go on from; {again}")
        kept = next(path for n in itertools.count(1) if not (path := self.path / f"earlier_{n}").exists())
        if left:
            serialization.make_folder(kept)
        for path in left:
            with serialization.wrap_os_errors(kept / path.name):
                path.rename(kept / path.name)
        serialization.write_atomic(self.path / UNSAVED, b"")
        serialization.write_atomic(self.path / METRICS, b"")
        return kept if left else None

    @property
    def metrics_bytes(self) -> int:
        """How long the metrics are by now."""
        return (self.path / METRICS).stat().st_size

    def save(self, training: PyTree, seconds: float, metrics_bytes: int, episodes_whole: int | None = None) -> None:
        """Write all that training goes on from, and what was true when it was like this."""
        notes = {"metrics_bytes": str(metrics_bytes), "seconds": repr(seconds), "episodes_whole": json.dumps(episodes_whole)}
        serialization.fsync(self.path / METRICS)  # of which so many bytes must be there when this is read
        serialization.write_arrays(self.path / TRAINING, training, notes)
        (self.path / UNSAVED).unlink(missing_ok=True)

    @property
    def episodes_whole(self) -> int | None:
        """How many episodes were saved whole beside all in little space; nothing if all were."""
        return json.loads(serialization.read_notes(self.path / TRAINING).get("episodes_whole", "null"))

    @property
    def saved_to_the_end(self) -> bool:
        """Whether nothing was reported after the last save; of a run whose save was left away that is taken to be so."""
        if not self.saved:
            return not (self.path / UNSAVED).exists()
        return int(serialization.read_notes(self.path / TRAINING)["metrics_bytes"]) == self.metrics_bytes

    def restore(self, like: Tree) -> tuple[Tree, float]:
        """What was saved last, as a tree like this one, and the seconds trained; metrics written later are cut off."""
        training, notes = serialization.read_arrays(self.path / TRAINING, like)
        length, metrics = int(notes["metrics_bytes"]), self.path / METRICS
        if metrics.exists() and metrics.stat().st_size >= length:
            with serialization.wrap_os_errors(metrics):
                os.truncate(metrics, length)
        elif length:
            raise RefilError(f"{metrics} is shorter than it was when {TRAINING} was written; the two do not belong together")
        return training, float(notes["seconds"])

    def save_models(self, models: Model, seeds: list[int], trained: Experiment) -> None:
        """One file for each seed; it also says what it was trained for. What other models won by task is no longer true."""
        (self.path / BY_TASK).unlink(missing_ok=True)
        models, notes = jax.device_get(models), {"trained": json.dumps(trained.parts())}
        for row, seed in enumerate(seeds):
            model = jax.tree.map(lambda leaf, row=row: leaf[row], models)
            serialization.write_arrays(self.path / f"model_seed_{seed}.safetensors", model, notes)

    def load_models(self, like: Model) -> Model:
        """All seeds' models with a leading axis; `like` is one seed's."""
        if not self.seeds:
            raise RefilError(f"{self.path} has no model yet")
        rows = [serialization.read_arrays(self.path / f"model_seed_{seed}.safetensors", like)[0] for seed in self.seeds]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *rows)


def create(path: Path, asked: Experiment) -> Run:
    """A new run's folder; one in which nothing has come of a run yet is as good as new."""
    begun = [path / name for name in (METRICS, TRAINING) if (path / name).exists()]
    if any(file.stat().st_size for file in begun):
        raise RefilError(f"{path} holds a run already: 'refil train --resume {path}' continues it, or choose another --out")
    serialization.make_folder(path)
    run = Run(path)
    run.keep_experiment(asked)
    return run


def existing(path: Path) -> Run:
    """A folder that holds a run."""
    if not (path / CONFIG).is_file():
        raise RefilError(f"{path} holds no run: there is no {path / CONFIG}")
    return Run(path)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of a run's folder; the lock goes with its process, however that ends."""
    serialization.make_folder(path)
    with serialization.wrap_os_errors(path / LOCK):
        file = (path / LOCK).open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefilError(f"another process is training in {path}") from None
        yield
