"""Run all runs of an experiment of the paper and write its figure or table; finished runs are not repeated.

Several processes can share an experiment: give each a part of the labels with --only, and all the same --out.
"""

import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from refil import plugins, settings
from refil.cli import _flags
from refil.cli._training import check, run_training
from refil.errors import RefilError
from refil.experiments import folder_name as _folder
from refil.settings import NonNegativeFloat, NonNegativeInt, PositiveInt
from refil.storage import run_dir, serialization
from refil.training import config as configs
from refil.training.config import RunConfig
from refil.training.setup import Precision

EXPERIMENTS = "refil.experiments"
OVERRIDES = ("seeds", "seed", "steps", "envs", "precision")  # options that replace those of the experiment's runs
SECONDS_TO_START = 30.0  # a run is not started with less time left, because compilation cannot be interrupted


@dataclass(frozen=True)
class SweepArgs:
    """The experiment to run, and options that replace those of its runs."""

    experiment: Annotated[str, tyro.conf.Positional]  # Experiment: a name from 'refil list', or the path of a Python file
    only: str = ""  # Run only those runs whose label contains this text
    out: Path | None = None  # Folder for the runs and the figure (default: results/ and the experiment's name)
    seeds: PositiveInt | None = None  # Number of seeds per run
    seed: NonNegativeInt | None = None  # First seed, for example to add seeds on another machine
    steps: PositiveInt | None = None  # Environment steps to train each seed for
    envs: PositiveInt | None = None  # Environments per seed (the paper has 8); as many updates follow each round of episodes
    precision: Precision | None = None  # Precision of matrix products on a GPU
    compact_checkpoints: bool = False  # Compress the replay buffer in checkpoints and re-simulate its episodes on resume
    stop_after: NonNegativeFloat | None = None  # Minutes after which to save and stop; the same command resumes


def main(arguments: list[str]) -> None:
    """Run what is missing, then write the report."""
    args = settings.from_command_line(SweepArgs, arguments, "refil sweep", __doc__)
    experiment = plugins.load(EXPERIMENTS, args.experiment)
    out = args.out or Path("results") / Path(args.experiment).stem
    deadline = time.monotonic() + 60 * args.stop_after if args.stop_after is not None else None
    runs = {label: _override(config, args) for label, config in experiment.runs().items()}
    _check_labels(list(runs))
    chosen = [label for label in runs if args.only in label]
    if not chosen:
        raise RefilError(f"no run of {args.experiment} has {args.only!r} in its label; available: {', '.join(runs)}")
    for label in chosen:
        print(f"{label}: {out / _folder(label)}")
        if not _complete(runs[label], out / _folder(label), deadline):
            print(f"Stopped; everything is saved. The same command resumes: refil sweep {shlex.join(arguments)}")
            sys.exit(130)
    if missing := [label for label in runs if not _is_finished(out / _folder(label), runs[label])]:
        print(f"Still to run: {', '.join(missing)}")
        return
    for label in runs:
        _check_same(out / _folder(label), runs[label])
    with serialization.require_matplotlib():
        result = experiment.report({label: run_dir.open_run(out / _folder(label)) for label in runs}, out)
    print(f"All runs are finished: {result}")


def _check_labels(labels: list[str]) -> None:
    folders = [_folder(label) for label in labels]
    for label, folder in zip(labels, folders, strict=True):
        if not folder or folders.count(folder) > 1:
            raise RefilError(f"the label {label!r} must differ from the others in its letters and digits (a-z, 0-9)")


def _override(config: RunConfig, args: SweepArgs) -> RunConfig:
    changes = {name: value for name in OVERRIDES if (value := getattr(args, name)) is not None}
    compact = args.compact_checkpoints or config.output.compact_checkpoints
    return config.with_options(compact_checkpoints=compact, **changes)


def _check_same(path: Path, config: RunConfig) -> None:
    differing = run_dir.open_run(path).differences(config)
    allowed = _may_differ_when_finished if _is_finished(path, config) else configs.is_changeable
    if names := sorted(_flags.flag(config, name) for name in differing if not allowed(name)):
        raise RefilError(f"{path} holds a run with other options: {', '.join(names)}; choose another --out")


def _may_differ_when_finished(name: str) -> bool:
    # A finished run of another length is another curve, whereas packing does not change what is learned.
    return name == "algorithm.pack" or name.startswith("output.")


def _complete(config: RunConfig, path: Path, deadline: float | None) -> bool:
    """Bring a run to its end; return False where time ran out."""
    if not path.exists():
        check(config)  # raises before anything is written
    with run_dir.locked(path):
        resume = (path / run_dir.CONFIG).exists()
        if resume:
            _check_same(path, config)
        if _is_finished(path, config):
            return True
        if deadline is not None and deadline - time.monotonic() < SECONDS_TO_START:
            return False
        run = run_dir.open_run(path) if resume else run_dir.create(path, config)
        if deadline is not None:
            config = config.with_options(stop_after=max(0.0, deadline - time.monotonic()) / 60)
        return run_training(config, run, resume)


def _is_finished(path: Path, config: RunConfig) -> bool:
    if not (path / run_dir.METRICS).exists():
        return False
    run = run_dir.open_run(path)
    if not run.is_complete:  # lines after the last checkpoint do not count, and may be damaged
        return False
    steps = {line["seed"]: line["env_steps"] for line in run.metrics()}
    return len(steps) == config.train.seeds and min(steps.values()) >= config.train.steps
