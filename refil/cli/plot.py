"""Draw runs in one figure: mean and 95 % interval over seeds. Prints the same as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from refil import plugins, settings
from refil.errors import RefilError
from refil.storage import run_dir, serialization

PLOTS = "refil.plots"


@dataclass(frozen=True)
class Options:
    """What to draw, and where."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]  # the runs' folders
    out: Path = Path("curves.png")  # the picture; its ending decides the format (png, pdf, svg)
    labels: tuple[str, ...] = ()  # names in the legend, one for each run (the same name: one line); by default the methods'
    figure: str = "learning_curves"  # what to draw, by its name or as a .py file of one's own


def main(arguments: list[str]) -> None:
    """Draw, and say what and where."""
    options = settings.from_command_line(Options, arguments, "refil plot", __doc__)
    if not options.runs:
        raise RefilError("name at least one run's folder")
    if options.labels and len(options.labels) != len(options.runs):
        raise RefilError(f"--labels has {len(options.labels)} names for {len(options.runs)} runs")
    found = [run_dir.existing(path) for path in options.runs]
    with serialization.require_matplotlib():
        module, drawn = plugins.load(PLOTS, options.figure), lines(found, options.labels or labels(found))
        serialization.save_figure(module.draw(drawn), options.out)
    print("\n".join([*module.table(drawn), str(options.out)]))


def lines(found: list[run_dir.Run], names: Sequence[str]) -> dict[str, list[run_dir.Run]]:
    """By name all runs that have it; each counts once."""
    by_name = {name: [run for run, its in zip(found, names, strict=True) if its == name] for name in names}
    for name, its in by_name.items():
        if len({run.path.resolve() for run in its}) < len(its):
            raise RefilError(f"a run is named twice for {name!r}")
    return by_name


def labels(found: list[run_dir.Run]) -> list[str]:
    """The methods' names, with the folder's where a method comes twice, and its whole path where that does."""
    methods = [run.experiment.method for run in found]
    folders = [f"{method}, {run.path.name}" for method, run in zip(methods, found, strict=True)]
    paths = [f"{method}, {run.path}" for method, run in zip(methods, found, strict=True)]
    ways = (methods, folders, paths)
    return [next((way[n] for way in ways if way.count(way[n]) == 1), paths[n]) for n in range(len(found))]
