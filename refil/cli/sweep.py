"""Run an experiment of the paper, all of its runs, and make its figure or table; what is done already is not done again.

Several processes can share the work: give each a part of the labels with --only, and the same --out.
"""

import re
import shlex
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from refil import plugins, settings
from refil.errors import RefilError
from refil.settings import NonNegativeFloat, NonNegativeInt, PositiveInt
from refil.storage import run_dir, serialization
from refil.training import config
from refil.training.config import CHANGEABLE, Experiment, Precision

EXPERIMENTS = "refil.experiments"
ADJUSTED = ("seeds", "seed", "steps", "envs", "precision")  # options that are the run's as well
UNSEEN = ("--fold", "--log-every")  # options that a finished run, which learned the same, may have had otherwise
TO_BEGIN = 30.0  # seconds without which no run is begun: compiling cannot be interrupted


@dataclass(frozen=True)
class Options:
    """What to run, and how much of it."""

    experiment: Annotated[str, tyro.conf.Positional]  # which, by its name (refil list has them) or as a .py file of one's own
    only: str = ""  # of its runs those whose label contains this
    out: Path | None = None  # where the runs and the figure go; by default results/ and the experiment's name
    seeds: PositiveInt | None = None  # instead of the experiment's number
    seed: NonNegativeInt | None = None  # the first of them, so that another machine's are other ones
    steps: PositiveInt | None = None  # instead of the experiment's number
    envs: PositiveInt | None = None  # episodes played at once, instead of the paper's 8; as many updates follow
    precision: Precision | None = None  # of arithmetic on a GPU; float32 by default
    condense: bool = False  # save of episodes only what they can be played again from
    stop_after: NonNegativeFloat | None = None  # minutes after which to save and stop; the same command goes on


def main(arguments: list[str]) -> None:
    """Run what is missing, then draw."""
    options = settings.from_command_line(Options, arguments, "refil sweep", __doc__)
    module = plugins.load(EXPERIMENTS, options.experiment)
    out = options.out or Path("results") / Path(options.experiment).stem
    end = time.monotonic() + 60 * options.stop_after if options.stop_after is not None else None
    planned = {label: wanted(default, options) for label, default in module.planned().items()}
    check_folders(list(planned))
    chosen = [label for label in planned if options.only in label]
    if not chosen:
        raise RefilError(f"no run of {options.experiment} has {options.only!r} in its label; there are {', '.join(planned)}")
    for label in chosen:
        print(f"{label}: {out / folder(label)}")
        if not complete(planned[label], out / folder(label), end):
            print(f"Stopped; everything is saved. The same command goes on: refil sweep {shlex.join(arguments)}")
            sys.exit(130)
    if missing := [label for label in planned if not finished(out / folder(label), planned[label])]:
        print(f"Still to be done: {', '.join(missing)}")
        return
    for label in planned:
        check_same(out / folder(label), planned[label])
    with serialization.require_matplotlib():
        result = module.conclude({label: run_dir.existing(out / folder(label)) for label in planned}, out)
    print(f"Everything is done: {result}")


def folder(label: str) -> str:
    """A label as the name of a folder."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def check_folders(labels: list[str]) -> None:
    """Refuse labels that cannot be told apart by their folders."""
    for label in labels:
        if not folder(label) or [folder(each) for each in labels].count(folder(label)) > 1:
            raise RefilError(f"the label {label!r} needs letters or digits (a-z, 0-9) that no other label has in this order")


def wanted(default: Experiment, options: Options) -> Experiment:
    """The run with what the user changed."""
    changes = {name: value for name in ADJUSTED if (value := getattr(options, name)) is not None}
    condense = options.condense or default.options.condense
    return replace(default, options=replace(default.options, condense=condense, **changes))


def check_same(path: Path, asked: Experiment) -> None:
    """Refuse a folder that holds another run than the one asked for."""
    saved, done = run_dir.existing(path).experiment, finished(path, asked)
    allowed = {*CHANGEABLE, *UNSEEN} - {"--steps"} if done else {*CHANGEABLE}  # one with more steps is another curve
    if changed := config.differences(saved, asked).keys() - allowed:
        raise RefilError(f"{path} holds a run with other options: {', '.join(sorted(changed))}; choose another --out")


def complete(asked: Experiment, path: Path, end: float | None) -> bool:
    """Bring a run to its end; false where time ran out."""
    from refil.training import trainer

    with run_dir.locked(path):
        resume = (path / run_dir.CONFIG).exists()
        if resume:
            check_same(path, asked)
        if finished(path, asked):
            return True
        if end is not None and end - time.monotonic() < TO_BEGIN:
            return False
        run = run_dir.existing(path) if resume else run_dir.create(path, asked)
        if end is not None:
            asked = replace(asked, options=replace(asked.options, stop_after=max(0.0, end - time.monotonic()) / 60))
        return trainer.run(asked, run, resume)


def finished(path: Path, asked: Experiment) -> bool:
    """Whether every seed's metrics reach the last step, and all was saved then."""
    if not (path / run_dir.METRICS).exists():
        return False
    run = run_dir.existing(path)
    steps = {line["seed"]: line["env_steps"] for line in run.metrics()}
    return len(steps) == asked.options.seeds and min(steps.values()) >= asked.options.steps and run.saved_to_the_end
