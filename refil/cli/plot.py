"""Draw several runs into one figure, and print the same as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from refil import plugins, settings
from refil.errors import RefilError
from refil.storage import run_dir, serialization
from refil.storage.run_dir import RunDir

PLOTS = "refil.plots"


@dataclass(frozen=True)
class PlotArgs:
    """Runs to draw, and where to write the figure."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]  # Folders of the runs
    out: Path = Path("curves.png")  # File of the figure; its suffix chooses the format (png, pdf, svg)
    labels: tuple[str, ...] = ()  # One label per run (default: the methods); runs with the same label form one curve
    figure: str = "learning_curves"  # Figure to draw: a name from 'refil list', or the path of a Python file


def main(arguments: list[str]) -> None:
    """Draw the figure and print the table."""
    args = settings.from_command_line(PlotArgs, arguments, "refil plot", __doc__)
    if not args.runs:
        raise RefilError("give the folder of at least one run")
    if args.labels and len(args.labels) != len(args.runs):
        raise RefilError(f"--labels has {len(args.labels)} labels for {len(args.runs)} runs")
    runs = [run_dir.open_run(path) for path in args.runs]
    with serialization.require_matplotlib():
        figure, curves = plugins.load(PLOTS, args.figure), _by_label(runs, args.labels or _default_labels(runs))
        serialization.save_figure(figure.draw(curves), args.out)
    print("\n".join([*figure.table(curves), str(args.out)]))


def _by_label(runs: list[RunDir], labels: Sequence[str]) -> dict[str, list[RunDir]]:
    curves: dict[str, list[RunDir]] = {}
    for run, label in zip(runs, labels, strict=True):
        curves.setdefault(label, []).append(run)
    for label, members in curves.items():
        if len({run.path.resolve() for run in members}) < len(members):
            raise RefilError(f"a run is given twice for the label {label!r}")
    return curves


def _default_labels(runs: list[RunDir]) -> list[str]:
    # The method, with the folder's name if a method occurs twice, and with the whole path if that does.
    methods = [run.config.method.name for run in runs]
    folders = [f"{method}, {run.path.name}" for method, run in zip(methods, runs, strict=True)]
    paths = [f"{method}, {run.path}" for method, run in zip(methods, runs, strict=True)]
    candidates = (methods, folders, paths)
    return [next((names[n] for names in candidates if names.count(names[n]) == 1), paths[n]) for n in range(len(runs))]
