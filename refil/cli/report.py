"""Draw an experiment from the runs that exist in a folder, and list the runs that are missing with their commands."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from refil import experiments, plugins, settings
from refil.errors import RefilError
from refil.storage import serialization
from refil.storage.run_dir import RunDir
from refil.training.config import RunConfig

EXPERIMENTS = "refil.experiments"
OVERRIDES = ("seeds", "steps", "envs", "precision")  # options of `refil sweep` that replace those of an experiment


@dataclass(frozen=True)
class ReportArgs:
    """The experiment to draw, and the folder of its runs."""

    # Experiment: a name from 'refil list', or the path of a Python file
    experiment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="EXPERIMENT", help_behavior_hint="(required)")] = ""
    out: Path | None = None  # Folder of the runs, and of the figure (None: results/ and the experiment's name)


def main(arguments: list[str]) -> None:
    """Draw what exists, and print what is missing."""
    args = settings.from_command_line(ReportArgs, arguments, "refil report", __doc__)
    if not args.experiment:
        raise RefilError(f"give the experiment to draw: {', '.join(plugins.names(EXPERIMENTS))}, or the path of a Python file")
    experiment = plugins.load(EXPERIMENTS, args.experiment)
    out = args.out or Path("results") / Path(args.experiment).stem
    labels = list(experiment.runs())
    done = experiments.find_runs(out, labels)
    if labels and not done:
        raise RefilError(f"{out} has no run of {args.experiment}; 'refil sweep {args.experiment} --out {out}' makes them")
    serialization.make_folder(out)
    with serialization.require_matplotlib():
        print(experiment.report(done, out))
    missing = [label for label in labels if label not in done]
    if missing:
        print(f"{len(missing)} of {len(labels)} runs are missing; with the options of {next(iter(done))}:")
        options = _options(done, experiment.runs())
    for label in missing:
        print(f"  {shlex.join(['refil', 'sweep', args.experiment, '--only', label, *options, '--out', str(out)])}")


def _options(done: dict[str, RunDir], runs: dict[str, RunConfig]) -> list[str]:
    """Return the options of `refil sweep` with which the first run was made."""
    label = next(iter(done))
    changed = {path.rpartition(".")[2]: values[0] for path, values in done[label].differences(runs[label]).items()}
    return [word for name in OVERRIDES if name in changed for word in (f"--{name}", str(changed[name]))]
