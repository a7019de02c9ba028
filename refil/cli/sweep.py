"""Train all runs of an experiment, such as a figure of the paper, and draw it; finished runs are not repeated.

A run trains in a process of its own: one per GPU at a time, or one on a CPU (--slots for more). On a cluster use --ray or
--slurm. Several processes and machines can work on one folder (--out): they share the runs, and take over those of a machine
that died. 'refil status FOLDER' shows how far they are.
"""

import shlex
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from refil import plugins, settings
from refil.cli import _executors, _flags, _signals
from refil.cli._sweep_progress import SweepProgress
from refil.errors import RefilError
from refil.settings import NonNegativeFloat, NonNegativeInt, PositiveInt
from refil.storage import run_dir, serialization
from refil.sweeps import estimate
from refil.sweeps.executor import Executor
from refil.sweeps.plan import PlannedRun, plan
from refil.sweeps.scheduler import SECONDS_TO_START, Scheduler
from refil.training.config import RunConfig
from refil.training.setup import Precision

EXPERIMENTS = "refil.experiments"
OVERRIDES = ("seeds", "seed", "steps", "envs", "precision")  # options that replace those of the experiment's runs
STOPPING = "Stopping all runs after their next save; press Ctrl-C again to stop without saving."


@dataclass(frozen=True)
class SweepArgs:
    """The experiment to run, options that replace those of its runs, and where they train."""

    # Experiment: a name from 'refil list', or the path of a Python file
    experiment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="EXPERIMENT", help_behavior_hint="(required)")] = ""
    # Train only those runs whose label contains this text; can be given several times
    only: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    out: Path | None = None  # Folder for the runs and the figure (None: results/ and the experiment's name)
    seeds: PositiveInt | None = None  # Number of seeds per run (None: the experiment's own)
    seed: NonNegativeInt | None = None  # First seed, for example to add seeds on another machine (None: the experiment's own)
    steps: PositiveInt | None = None  # Environment steps to train each seed for (None: the experiment's own)
    envs: PositiveInt | None = None  # Environments per seed, stepped in parallel; the paper has 8 (None: the experiment's own)
    precision: Precision | None = None  # Precision of matrix products on a GPU (None: the experiment's own)
    compact_checkpoints: bool = False  # Compress the replay buffer in checkpoints and re-simulate its episodes on resume
    stop_after: NonNegativeFloat | None = None  # Minutes after which to save and stop; the same command resumes
    dry_run: bool = False  # Print what would be trained and how long it takes, and write nothing
    slots: PositiveInt = 1  # Runs at the same time on each GPU, or on a CPU; runs that share a GPU share its memory equally
    gpus: NonNegativeInt | None = None  # GPUs to use (None: all that there are; 0: the CPU); with --slurm, GPUs of each job
    ray: str | None = None  # Address of a Ray cluster, such as 10.0.0.1:6379, auto (this machine's) or local (started here)
    slurm: bool = False  # Submit every run as a job to SLURM; the folder must be shared with its nodes
    slurm_options: tuple[str, ...] = ()  # Options of the jobs, such as partition=gpu time=120 cpus_per_task=8


def main(arguments: list[str]) -> None:
    """Train what is missing, then write the report."""
    args = settings.from_command_line(SweepArgs, arguments, "refil sweep", __doc__)
    deadline = time.monotonic() + 60 * args.stop_after if args.stop_after is not None else None
    if not args.experiment:
        raise RefilError(f"give the experiment to sweep: {', '.join(plugins.names(EXPERIMENTS))}, or the path of a Python file")
    experiment = plugins.load(EXPERIMENTS, args.experiment)
    out = args.out or Path("results") / Path(args.experiment).stem
    runs = plan({label: _override(config, args) for label, config in experiment.runs().items()}, out, _flags.flag)
    chosen = [run for run in runs if not args.only or any(text in run.label for text in args.only)]
    for text in args.only:
        if not any(text in run.label for run in runs):
            labels = ", ".join(run.label for run in runs)
            raise RefilError(f"no run of {args.experiment} has {text!r} in its label; available: {labels}")
    for run in chosen:
        run.check()
    if args.dry_run:
        _print_plan(chosen, args)
        return
    _train([run for run in chosen if not run.is_finished], out, args, deadline, f"refil sweep {shlex.join(arguments)}")
    if missing := [run.label for run in runs if not run.is_finished]:
        print(f"Still to run: {', '.join(missing)}")
        return
    for run in runs:
        run.check()
    with serialization.require_matplotlib():
        result = experiment.report({run.label: run_dir.open_run(run.path) for run in runs}, out)
    print(f"All runs are finished: {result}")


def _override(config: RunConfig, args: SweepArgs) -> RunConfig:
    changes = {name: value for name in OVERRIDES if (value := getattr(args, name)) is not None}
    compact = args.compact_checkpoints or config.output.compact_checkpoints
    return config.with_options(compact_checkpoints=compact, **changes)


def _train(missing: list[PlannedRun], out: Path, args: SweepArgs, deadline: float | None, again: str) -> None:
    """Train runs; end the process if it was stopped, or if some of them failed."""
    if not missing:
        return
    executor = _executor(args, out)
    if deadline is None or deadline - time.monotonic() >= SECONDS_TO_START:
        for run in missing:
            run.prepare()  # so that `refil status` shows those that wait
    with SweepProgress([run.path for run in missing]) as progress:
        scheduler = Scheduler(missing, executor, progress.message, deadline)
        with _signals.watched(_Interrupts(scheduler, progress).react):
            scheduler.work()
    if scheduler.failed:
        errors = "".join(f"\n  {run.label}: {error}" for run, error in scheduler.failed.items())
        print(f"{len(scheduler.failed)} of {len(missing)} runs failed; the same command tries them again: {again}{errors}")
        sys.exit(1)
    if scheduler.waiting:
        print(f"Stopped; everything is saved. The same command resumes: {again}")
        sys.exit(130)


class _Interrupts:
    """Reacts to signals: the first one saves and stops all runs, the second one stops them without saving."""

    def __init__(self, scheduler: Scheduler, progress: SweepProgress) -> None:
        self.scheduler, self.progress, self.lock = scheduler, progress, threading.Lock()

    def react(self, number: int) -> None:
        with self.lock:
            if self.scheduler.stop.is_set():
                self.scheduler.kill()
                _signals.stop("stopped without saving")
            self.scheduler.stop.set()
        self.progress.message(STOPPING)


def _executor(args: SweepArgs, out: Path) -> Executor:
    return _executors.create(out, args.slots, args.gpus, args.ray, args.slurm, args.slurm_options)


def _print_plan(runs: Iterable[PlannedRun], args: SweepArgs) -> None:
    executor = _executor(args, Path())
    for line in estimate.plan_lines(
        list(runs), executor.capacity(), on_gpu=_executors.uses_gpus(args.gpus, args.ray is not None or args.slurm)
    ):
        print(line)
    executor.close()
