"""Draw several runs into one figure, and print the same as a table; each environment has its own panel."""

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from refil import plugins, settings
from refil.errors import RefilError
from refil.plots import PlotOptions, _marl_eval
from refil.settings import PositiveInt
from refil.storage import run_dir, serialization
from refil.storage.run_dir import RunDir

PLOTS = "refil.plots"
MAX_INCHES = 100.0


@dataclass(frozen=True)
class PlotArgs:
    """Runs to draw, and where to write the figure."""

    # Folders of the runs
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...", help_behavior_hint="(required)")]
    out: Path = Path("curves.png")  # File of the figure; its suffix chooses the format (png, pdf, svg)
    labels: tuple[str, ...] = ()  # One label per run (empty: the methods); runs with the same label form one curve
    figure: str = "learning_curves"  # Figure to draw: a name from 'refil list', or the path of a Python file
    metric: str = "win_rate"  # Name of a number in metrics.jsonl to draw, for example return_mean or loss
    title: str | None = None  # Title of the figure; panels are titled with environment and number of seeds in any case
    size: tuple[float, float] | None = None  # Width and height of the figure in inches
    smooth: PositiveInt = 1  # Number of evaluations to average over, the latest and those before it; tables are not smoothed
    until: PositiveInt | None = None  # Use only this many steps of each run, for example to compare runs of different length
    statistic: Literal["mean", "median", "iqm"] = "mean"  # Statistic of final values in the table (IQM: interquartile mean)
    export: Path | None = None  # Also write the evaluations to this file (.json), in the form that marl-eval reads
    # Mark this value, for example 0.8, and print when each seed first holds it for five evaluations in a row
    level: float | None = None


def main(arguments: list[str]) -> None:
    """Draw the figure and print the table."""
    args = settings.from_command_line(PlotArgs, arguments, "refil plot", __doc__)
    _check(args)
    runs = [run_dir.open_run(path) for path in args.runs]
    options = PlotOptions(args.metric, args.title, args.size, args.smooth, args.until, args.level, args.statistic)
    with serialization.require_matplotlib():
        figure, curves = plugins.load(PLOTS, args.figure), _by_label(runs, args.labels or _default_labels(runs))
        serialization.save_figure(_call(figure.draw, curves, options, args.figure), args.out)
    print("\n".join([*_call(figure.table, curves, options, args.figure), str(args.out)]))
    if args.export is not None:
        _marl_eval.write(curves, args.export)
        print(args.export)


def _check(args: PlotArgs) -> None:
    if not args.runs:
        raise RefilError("give the folder of at least one run")
    if args.labels and len(args.labels) != len(args.runs):
        raise RefilError(f"--labels has {len(args.labels)} labels for {len(args.runs)} runs")
    if args.size and not all(1 <= inches <= MAX_INCHES for inches in args.size):
        raise RefilError(
            f"--size must be two numbers of inches from 1 to {MAX_INCHES:g}, not {args.size[0]:g} {args.size[1]:g}"
        )
    if args.level is not None and not math.isfinite(args.level):
        raise RefilError(f"--level must be a finite number, not {args.level}")
    serialization.check_figure_path(args.out)
    if args.export is not None:
        serialization.check_suffix(args.export, ["json"])
        serialization.check_folder(args.export)


def _call(function: Callable[..., Any], curves: dict[str, list[RunDir]], options: PlotOptions, figure: str) -> Any:
    if len(inspect.signature(function).parameters) > 1:
        return function(curves, options)
    if options != PlotOptions():
        flags = "--metric, --title, --size, --smooth, --until, --statistic and --level"
        raise RefilError(f"{flags} need a figure with options; {function.__name__}(curves) of {figure} takes none")
    return function(curves)


def _by_label(runs: list[RunDir], labels: Sequence[str]) -> dict[str, list[RunDir]]:
    curves: dict[str, list[RunDir]] = {}
    for run, label in zip(runs, labels, strict=True):
        curves.setdefault(label, []).append(run)
    for label, members in curves.items():
        if len({run.path.resolve() for run in members}) < len(members):
            raise RefilError(f"a run is given twice for the label {label!r}")
    return curves


def _default_labels(runs: list[RunDir]) -> list[str]:
    # The method, with the folder's name if an environment has it twice, and with the whole path if that is not enough.
    from refil.plots import _runs

    envs, methods = _runs.environments(runs), [_runs.method_label(run) for run in runs]
    folders = [f"{method}, {run.path.name}" for method, run in zip(methods, runs, strict=True)]
    paths = [f"{method}, {run.path}" for method, run in zip(methods, runs, strict=True)]
    candidates = [list(zip(envs, names, strict=True)) for names in (methods, folders, paths)]
    numbers = range(len(runs))
    return [next((names[n][1] for names in candidates if names.count(names[n]) == 1), paths[n]) for n in numbers]
