"""The folder of a run: everything that is written to disk and read back.

    config.json                the config, which `refil train --config` reads
    code/                      the Python files of users that the config names
    metrics.jsonl              one line per log entry of a seed
    checkpoint.safetensors     the state of training, to resume from
    model_seed_N.safetensors   the model of one seed
    init.safetensors           the model that all seeds start from, if it is not random
    unsaved                    an empty file that exists until the first checkpoint is written
    aborted_1/                 files of a start that was killed before its first checkpoint
    by_task.json               wins on every task, written by `refil evaluate --by-task`
    wandb.json                 the ids of the runs at Weights & Biases, one per seed
    lock                       held by the process that trains here

Metrics are appended; all other files are replaced atomically.
"""

import contextlib
import itertools
import json
import os
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree

from refil.errors import RefilError
from refil.storage import initial, serialization
from refil.training import config as configs
from refil.training import flags
from refil.training.config import RunConfig

CONFIG, METRICS, CHECKPOINT, LOCK = "config.json", "metrics.jsonl", "checkpoint.safetensors", "lock"
CURVE, BY_TASK, UNSAVED = "learning_curve.png", "by_task.json", "unsaved"
OLD_CHECKPOINT = "training.safetensors"  # of version 0.1
Tree = TypeVar("Tree")


class RunDir:
    """The folder of a run."""

    def __init__(self, path: Path, trust: bool = False) -> None:
        self.path, self.trust = path, trust

    @property
    def config(self) -> RunConfig:
        """The config of the run; code that it names must be trusted."""
        return configs.read(serialization.read_text(self.path / CONFIG), str(self.path / CONFIG), self.path, self.trust)

    def differences(self, config: RunConfig) -> dict[str, tuple[Any, Any]]:
        """Return the options in which the run differs from a config, with both values; no code of the run is loaded."""
        return configs.compare(serialization.read_text(self.path / CONFIG), str(self.path / CONFIG), config)

    def write_config(self, config: RunConfig) -> None:
        """Write the config of the run, after the users' files that it names."""
        for name, source in config.code().items():
            serialization.make_folder((self.path / name).parent)
            serialization.write_atomic(self.path / name, source)
        serialization.write_atomic(self.path / CONFIG, config.to_json().encode())

    @property
    def seeds(self) -> list[int]:
        """The seeds whose models are stored."""
        return sorted(int(path.stem.removeprefix("model_seed_")) for path in self.model_paths())

    def model_paths(self) -> list[Path]:
        """Return the files of all models."""
        return sorted(self.path.glob("model_seed_*.safetensors"))

    def metrics(self) -> list[dict[str, Any]]:
        """Return all complete lines of the metrics; a line cut off by a crash is ignored."""
        lines = serialization.read_text(self.path / METRICS).splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def append_metrics(self, lines: list[dict[str, Any]]) -> None:
        """Append lines to the metrics."""
        with serialization.wrap_os_errors(self.path / METRICS), (self.path / METRICS).open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))

    @property
    def metrics_bytes(self) -> int:
        """The size of the metrics file."""
        return (self.path / METRICS).stat().st_size

    def by_task(self) -> dict[str, list[float]]:
        """Return the win rates on each task, one per seed."""
        if not (self.path / BY_TASK).exists():
            raise RefilError(f"{self.path} has no {BY_TASK} yet; 'refil evaluate {self.path} --by-task' creates it")
        stored = json.loads(serialization.read_text(self.path / BY_TASK))
        return {task: [won / stored["episodes"] for won in seeds] for task, seeds in stored["won"].items()}

    def write_by_task(self, episodes: int, won: dict[str, list[int]], **means: dict[str, list[float]]) -> None:
        """Write the number of episodes played per task, how many of them every seed won, and means such as `return_mean`."""
        values = {"episodes": episodes, "won": won} | means
        serialization.write_atomic(self.path / BY_TASK, (json.dumps(values) + "\n").encode())

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        return (self.path / CHECKPOINT).exists()

    def archive_unsaved(self) -> Path | None:
        """Start with empty metrics; move files of a start that wrote no checkpoint into a folder, and return its path.

        Raise if the folder holds a run whose checkpoint was deleted: its metrics must not be lost.
        """
        leftovers = [path for path in (self.path / METRICS, self.path / BY_TASK, *self.model_paths()) if _has_content(path)]
        if leftovers and not (self.path / UNSAVED).exists():
            retrain = f"'refil train --config {self.path / CONFIG} --out DIR' trains it again"
            if (self.path / OLD_CHECKPOINT).exists():
                raise RefilError(f"{self.path / OLD_CHECKPOINT} was written by refil 0.1 and cannot be resumed; {retrain}")
            raise RefilError(f"{self.path} has no {CHECKPOINT} to resume from; {retrain}")
        archive = next(path for n in itertools.count(1) if not (path := self.path / f"aborted_{n}").exists())
        if leftovers:
            serialization.make_folder(archive)
        for path in leftovers:
            with serialization.wrap_os_errors(archive / path.name):
                path.rename(archive / path.name)
        serialization.write_atomic(self.path / UNSAVED, b"")
        serialization.write_atomic(self.path / METRICS, b"")
        return archive if leftovers else None

    def save_checkpoint(
        self, state: PyTree, config: RunConfig, seconds: float, metrics_bytes: int, num_uncompressed: int | None = None
    ) -> None:
        """Write the state of training, with the training time and the size of the metrics that belong to it.

        `num_uncompressed` is the number of episodes stored uncompressed in a compressed replay buffer (None: all are).
        """
        metadata = {
            "config": config.to_json(),
            "flags": json.dumps(flags.effective()),
            "seconds": repr(seconds),
            "metrics_bytes": str(metrics_bytes),
            "num_uncompressed": json.dumps(num_uncompressed),
        }
        serialization.fsync(self.path / METRICS)  # the checkpoint refers to their size
        serialization.write_arrays(self.path / CHECKPOINT, state, metadata)
        (self.path / UNSAVED).unlink(missing_ok=True)

    @property
    def num_uncompressed(self) -> int | None:
        """The number of episodes stored uncompressed next to a compressed replay buffer; None if it is not compressed."""
        return json.loads(serialization.read_metadata(self.path / CHECKPOINT)["num_uncompressed"])

    @property
    def is_complete(self) -> bool:
        """Whether nothing was logged after the last checkpoint; assumed for runs whose checkpoint was deleted."""
        if not self.has_checkpoint:
            return not (self.path / UNSAVED).exists()
        return int(serialization.read_metadata(self.path / CHECKPOINT)["metrics_bytes"]) == self.metrics_bytes

    def load_checkpoint(self, like: Tree, config: RunConfig) -> tuple[Tree, float]:
        """Return the saved state, shaped as `like`, and the seconds trained; later lines are cut off the metrics.

        Raise if the checkpoint belongs to another config than the given one, and warn if it was written under other flags.
        """
        path = self.path / CHECKPOINT
        state, metadata = serialization.read_arrays(path, like, partial(_check_config, path, config))
        for name, now in flags.effective().items():
            if (saved := json.loads(metadata["flags"]).get(name)) != now:
                warnings.warn(
                    f"{path} was saved with {name} {saved!r}, not {now!r}: results may round differently", stacklevel=2
                )
        self._truncate_metrics(int(metadata["metrics_bytes"]))
        return state, float(metadata["seconds"])

    def save_models(self, models: PyTree, seeds: list[int], config: RunConfig) -> None:
        """Write one file per seed; the leading axis of all arrays is the seeds. Win rates by task become outdated."""
        (self.path / BY_TASK).unlink(missing_ok=True)
        models, metadata = jax.device_get(models), {"config": config.to_json()}
        for row, seed in enumerate(seeds):
            model = jax.tree.map(lambda leaf, row=row: leaf[row], models)
            serialization.write_arrays(self._model_path(seed), model, metadata)

    def load_model(self, seed: int, like: Tree) -> Tree:
        """Return the model of one seed, shaped as `like`."""
        path = self._model_path(seed)
        return serialization.read_arrays(path, like, partial(_check_config, path, self.config))[0]

    def load_models(self, like: Tree) -> Tree:
        """Return the models of all seeds with a leading axis; `like` is the model of one seed."""
        if not self.seeds:
            raise RefilError(f"{self.path} has no model yet")
        return jax.tree.map(lambda *leaves: np.stack(leaves), *(self.load_model(seed, like) for seed in self.seeds))

    def _model_path(self, seed: int) -> Path:
        return self.path / f"model_seed_{seed}.safetensors"

    def _truncate_metrics(self, size: int) -> None:
        metrics = self.path / METRICS
        content = metrics.read_bytes()[:size] if metrics.exists() else b""
        if len(content) < size or not (content.endswith(b"\n") or not content):
            raise RefilError(f"{metrics} does not match {CHECKPOINT}: no line ends at byte {size}, where it was saved")
        if metrics.exists():
            with serialization.wrap_os_errors(metrics):
                os.truncate(metrics, size)


def create(path: Path, config: RunConfig, init: Any = None) -> RunDir:
    """Create the folder of a new run, maybe with a model to start from; a folder in which nothing was saved is used again."""
    if any(_has_content(path / name) for name in (METRICS, CHECKPOINT, OLD_CHECKPOINT)):
        raise RefilError(f"{path} already holds a run: 'refil train --resume {path}' continues it, or choose another --out")
    serialization.make_folder(path)
    initial.store(path, init)  # before the config, so that no run forgets it
    run = RunDir(path)
    run.write_config(config)
    return run


def open_run(path: Path, trust: bool = False) -> RunDir:
    """Open the folder of an existing run; `trust` allows to run the code that it contains."""
    if not (path / CONFIG).is_file():
        raise RefilError(f"{path} holds no run: there is no {path / CONFIG}")
    return RunDir(path, trust)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of a run's folder; the lock ends with its process, even if that is killed."""
    try:
        import fcntl
    except ImportError:
        raise RefilError("Windows is not supported: it lacks the file locks that refil needs") from None
    serialization.make_folder(path)
    with serialization.wrap_os_errors(path / LOCK):
        file = (path / LOCK).open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefilError(f"another process is training in {path}") from None
        yield


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _check_config(path: Path, config: RunConfig, metadata: dict[str, str]) -> None:
    for name, (old, new) in configs.compare(metadata["config"], str(path), config).items():
        if not configs.is_changeable(name):
            raise RefilError(f"{path} was saved with {name} {old}, but the config has {name} {new}")
