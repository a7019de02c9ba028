"""The folder of a run: everything that is written to disk and read back.

    config.json                the config, which `refil train --config` reads
    code/                      the Python files of users that the config names
    metrics.jsonl              one line per log entry of a seed
    checkpoint.safetensors     the state of training, to resume from
    model_seed_N.safetensors   the model of one seed
    init.safetensors           the model that all seeds start from, if it is not random, with its checksum in init.json
    unsaved                    an empty file that exists until the first checkpoint is written
    aborted_1/                 files of a start that was killed before its first checkpoint
    by_task.json               wins on every task, written by `refil evaluate --by-task`
    learning_curve.png, replay.html   what is drawn when training ends
    tensorboard/, wandb.json   event files, and the ids of the runs at Weights & Biases, one per seed
    lock, claim_1.json         held by the process that trains here; the claim is there only while it does
    log.txt, error.txt         what processes of a sweep printed, and why the last one failed

Metrics are appended; all other files are replaced atomically.
"""

import warnings
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree

from refil.errors import RefilError
from refil.storage import initial, leftovers, metadata, model_files, records, serialization
from refil.storage.leftovers import has_content
from refil.storage.lock import is_locked
from refil.storage.lock import locked as locked
from refil.storage.metadata import CheckpointMetadata
from refil.storage.metrics_file import MetricsFile
from refil.storage.model_files import CONFIG as CONFIG
from refil.training import config as configs
from refil.training.config import RunConfig

METRICS, CHECKPOINT = "metrics.jsonl", "checkpoint.safetensors"
CURVE, REPLAY, BY_TASK, UNSAVED = "learning_curve.png", "replay.html", "by_task.json", "unsaved"
OLD_CHECKPOINT = "training.safetensors"  # checkpoint of version 0.1
PARAMETERS = "learner.parameters"  # arrays of a checkpoint whose names start so are the model
Tree = TypeVar("Tree")


class RunDir:
    """The folder of a run."""

    def __init__(self, path: Path, trust: bool = False) -> None:
        self.path, self.trust = path, trust
        self._metrics = MetricsFile(path / METRICS)

    @property
    def config(self) -> RunConfig:
        """The config of the run; code that it names must be trusted."""
        return configs.read(serialization.read_text(self.path / CONFIG), str(self.path / CONFIG), self.path, self.trust)

    def differences(self, config: RunConfig) -> dict[str, tuple[Any, Any]]:
        """Return the options in which the run differs from a config, with both values; no code of the run is loaded."""
        return configs.compare(serialization.read_text(self.path / CONFIG), str(self.path / CONFIG), config, complete=True)

    def write_config(self, config: RunConfig) -> None:
        """Write the config of the run, after the users' files that it names."""
        for name, source in config.code().items():
            serialization.make_subfolder(self.path, (self.path / name).parent)
            serialization.write_atomic(self.path / name, source)
        serialization.write_atomic(self.path / CONFIG, config.to_json().encode())

    @property
    def seeds(self) -> list[int]:
        """The seeds of the run whose models are stored."""
        return list(model_files.find(self.path))

    def model_paths(self) -> list[Path]:
        """Return the files of the models of the run; warn about others that are named like one."""
        return list(model_files.find(self.path).values())

    def metrics(self) -> list[dict[str, Any]]:
        """Return all complete lines of the metrics; a line cut off by a crash is ignored.

        Raise if they, or the config, do not belong to the checkpoint that is stored with them.
        """
        saved = self._readable_checkpoint()  # before the metrics, which grow while a run trains
        content = self._metrics.read()
        lines: list[dict[str, Any]] = [*records.parse_metrics(content, self._metrics.path)]
        if saved is not None:
            self._verify(content, saved)
        return lines

    def saved_metrics(self) -> list[dict[str, Any]]:
        """Return the lines of metrics that the checkpoint covers; none if there is no checkpoint."""
        if not self.has_checkpoint:
            return []
        size = metadata.read_saved(self.path / CHECKPOINT).metrics_bytes
        return [*records.parse_metrics(self._metrics.read()[:size], self._metrics.path)]

    def append_metrics(self, lines: list[dict[str, Any]]) -> None:
        """Append lines to the metrics."""
        self._metrics.append(lines)

    @property
    def metrics_bytes(self) -> int:
        """The size of the metrics file."""
        return self._metrics.size

    def by_task(self) -> dict[str, list[float]]:
        """Return the win rates on each task, one per seed; raise if other models than those stored here won them."""
        run, path = self.path, self.path / BY_TASK
        if not path.exists():
            raise RefilError(f"{self.path} has no {BY_TASK} yet; evaluating the run by task creates it", self.path)
        rates, models = records.parse_by_task(serialization.read_bytes(path), path)
        if models is not None and not model_files.are_among(self.path, models):
            raise RefilError(f"{path} belongs to other models than those in {run}; evaluating the run by task replaces it", run)
        return rates

    def write_by_task(self, episodes: int, won: dict[str, list[int]], **means: dict[str, list[float]]) -> None:
        """Write the number of episodes played per task, how many of them every seed won, and means such as `return_mean`."""
        stored = {"episodes": episodes, "won": won, "models": model_files.checksums(self.path)} | means
        serialization.write_atomic(self.path / BY_TASK, records.by_task_text(stored).encode())

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        return (self.path / CHECKPOINT).exists()

    def archive_unsaved(self) -> Path | None:
        """Start with empty metrics; move files of a start that wrote no checkpoint into a folder, and return its path.

        Raise if the folder holds a run whose checkpoint was deleted: its metrics must not be lost.
        """
        files = leftovers.find(self.path, (METRICS, BY_TASK))
        if files and not (self.path / UNSAVED).exists():
            hint = "training its config in another folder repeats it"
            if (old := self.path / OLD_CHECKPOINT).exists():
                raise RefilError(f"{old} was written by refil 0.1 and cannot be resumed; {hint}", self.path)
            raise RefilError(f"{self.path} has no {CHECKPOINT} to resume from; {hint}", self.path)
        archive = leftovers.archive(self.path, files)
        serialization.write_atomic(self.path / UNSAVED, b"")
        serialization.write_atomic(self.path / METRICS, b"")
        return archive

    def save_checkpoint(
        self, state: PyTree, config: RunConfig, seconds: float, metrics_bytes: int, num_uncompressed: int | None = None
    ) -> None:
        """Write the state of training, with the training time, and the size of the metrics and the models that belong to it.

        `num_uncompressed` is the number of episodes stored uncompressed in a compressed replay buffer (None: all are).
        """
        checksum, models = self._metrics.checksum(metrics_bytes), model_files.checksums(self.path, _seeds(config))
        saved = CheckpointMetadata(config.to_json(), seconds, metrics_bytes, checksum, num_uncompressed, models)
        serialization.fsync(self.path / METRICS)  # the checkpoint refers to them
        serialization.write_arrays(self.path / CHECKPOINT, state, saved.to_metadata())
        serialization.remove(self.path / UNSAVED)

    @property
    def num_uncompressed(self) -> int | None:
        """The number of episodes stored uncompressed next to a compressed replay buffer; None if it is not compressed."""
        return metadata.read_saved(self.path / CHECKPOINT).num_uncompressed

    @property
    def is_complete(self) -> bool:
        """Whether nothing was logged after the last checkpoint; assumed for runs whose checkpoint was deleted."""
        if not self.has_checkpoint:
            return not (self.path / UNSAVED).exists()
        return metadata.read_saved(self.path / CHECKPOINT).metrics_bytes == self.metrics_bytes

    def load_checkpoint(self, like: Tree, config: RunConfig) -> tuple[Tree, float]:
        """Return the saved state, shaped as `like`, and the seconds trained; later lines are cut off the metrics.

        Raise if the checkpoint belongs to another config or to other metrics, and warn if it was written under other flags.
        """
        path = self.path / CHECKPOINT
        verify = partial(metadata.check_config, path, config)
        state, stored = serialization.read_arrays(path, like, verify, PARAMETERS)
        metadata.warn_about_flags(path, stored)
        saved = metadata.parse_saved(stored, path)
        self._metrics.truncate(saved)
        return state, saved.seconds

    def save_models(self, models: PyTree, seeds: list[int], config: RunConfig) -> None:
        """Write one file per seed; the leading axis of all arrays is the seeds. Win rates by task become outdated."""
        serialization.remove(self.path / BY_TASK)
        model_files.save(self.path, models, seeds, config)

    def load_model(self, seed: int, like: Tree) -> Tree:
        """Return the model of one seed, shaped as `like`; raise if it is not the one that was saved with the checkpoint."""
        saved, model = self._readable_checkpoint(), model_files.load(self.path, seed, like, self.config)
        matches = saved is None or not saved.models or model_files.is_saved(self.path, seed, saved.models)
        if not matches and not is_locked(self.path):  # while a run is saved, models are newer than its checkpoint
            self.metrics()  # raises where the checkpoint is that of another run, and cannot be resumed either
            file, advice = model_files.path(self.path, seed), "resuming the run saves both again"
            raise RefilError(f"{file} was not saved with {CHECKPOINT}: it is of another run or time; {advice}", self.path)
        return model

    def has_models(self, seeds: list[int]) -> bool:
        """Return whether the models of these seeds are stored as they were when the checkpoint was saved."""
        models, stored = metadata.read_saved(self.path / CHECKPOINT).models, set(seeds) <= set(self.seeds)
        return stored and (models is None or all(model_files.is_saved(self.path, seed, models) for seed in seeds))

    def load_models(self, like: Tree) -> Tree:
        """Return the models of all seeds with a leading axis; `like` is the model of one seed."""
        if not self.seeds:
            self.metrics()  # raises where the config has other seeds than the checkpoint
            raise RefilError(f"{self.path} has no model yet")
        return jax.tree.map(lambda *leaves: np.stack(leaves), *(self.load_model(seed, like) for seed in self.seeds))

    def _verify(self, content: bytes, saved: CheckpointMetadata) -> None:
        self._metrics.check(content, saved)
        metadata.check_stored_config(self.path / CHECKPOINT, saved.config, serialization.read_text(self.path / CONFIG))
        self._metrics.check_seeds(content, saved)

    def _readable_checkpoint(self) -> CheckpointMetadata | None:
        try:
            return metadata.read_saved(self.path / CHECKPOINT) if self.has_checkpoint else None
        except RefilError as error:  # curves can be drawn without it
            warnings.warn(f"{self.path} cannot be verified: {error}", stacklevel=3)
            return None


def create(path: Path, config: RunConfig, init: Any = None) -> RunDir:
    """Create the folder of a new run, maybe with a model to start from; a folder in which nothing was learned is used again."""
    if has_learned(path):
        raise RefilError(f"{path} already holds a run: resume=True continues it, or choose another folder", path)
    if not (path / UNSAVED).exists() and (files := leftovers.find(path, (BY_TASK,), _seeds(config))):
        raise RefilError(f"{path} already holds {files[0].name} of another run; choose another folder")
    serialization.make_folder(path)
    initial.store(path, init)  # before the config, so that no run forgets it
    run = RunDir(path)
    run.write_config(config)
    return run


def open_run(path: Path, trust: bool = False) -> RunDir:
    """Open the folder of an existing run; with `trust` the code that it contains may run."""
    if not (path / CONFIG).is_file():
        reason = f"{path / CONFIG} is not a regular file" if (path / CONFIG).exists() else f"there is no {path / CONFIG}"
        raise RefilError(f"{path} holds no run: {reason}")
    return RunDir(path, trust)


def has_learned(path: Path) -> bool:
    """Return whether a folder holds a checkpoint, or metrics of a run that began to learn."""
    metrics = MetricsFile(path / METRICS)
    learned = metrics.has_learned if (path / UNSAVED).exists() else has_content(metrics.path)
    return learned or any(has_content(path / name) for name in (CHECKPOINT, OLD_CHECKPOINT))


def _seeds(config: RunConfig) -> range:
    return range(config.train.seed, config.train.seed + config.train.seeds)
