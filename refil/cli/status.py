"""Show how far the runs in a folder are: finished, running, failed and waiting ones, with win rates and the time left."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.live import Live

from refil import settings
from refil.sweeps import state, table

SECONDS_BETWEEN_LOOKS = 2.0
WIDTH = 200  # columns where the output is no terminal


@dataclass(frozen=True)
class StatusArgs:
    """The folder to look at."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]  # Folder of a sweep, or of a single run
    watch: bool = False  # Update the table until every run is finished or failed, or until Ctrl-C


def main(arguments: list[str]) -> None:
    """Print the table, once or again and again."""
    args = settings.from_command_line(StatusArgs, arguments, "refil status", __doc__)
    state.find(args.folder)  # raises before anything is shown
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    if not args.watch:
        console.print(show(args.folder, console))
        return
    with Live(show(args.folder, console), console=console, auto_refresh=False, vertical_overflow="visible") as live:
        while any(each.status in ("running", "waiting") for each in _states(args.folder)):
            time.sleep(SECONDS_BETWEEN_LOOKS)
            live.update(show(args.folder, console), refresh=True)


def show(folder: Path, console: Console):
    """Return the table of the runs in a folder as they are now."""
    return table.render(_states(folder), console.encoding.startswith("utf"))


def _states(folder: Path) -> list[state.RunState]:
    return [state.read(path) for path in state.find(folder)]
