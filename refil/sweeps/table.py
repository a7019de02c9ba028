"""The table of `refil status` and of a running sweep."""

import time
from collections import Counter
from collections.abc import Iterable

from rich.console import Group
from rich.table import Table
from rich.text import Text

from refil.storage.progress import duration
from refil.sweeps.state import RunState

BAR_WIDTH = 10
STYLES = {"finished": "green", "running": "cyan", "failed": "red", "waiting": "dim", "partial": "yellow"}
ALWAYS = ("finished", "running", "failed", "waiting")  # states that are counted even if no run is in them


def render(states: Iterable[RunState], unicode: bool = True) -> Group:
    """Return a table with a line per run, and a line that counts them."""
    states = list(states)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("run", overflow="fold")
    table.add_column("state")
    table.add_column("progress", no_wrap=True)
    table.add_column("win rate", justify="right")
    table.add_column("time left", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for state in states:
        style = STYLES[state.status]
        left = "" if state.seconds_left is None else duration(state.seconds_left)
        rate = "" if state.win_rate is None else f"{state.win_rate:.0%}"
        word, note = Text(state.status, style), Text(state.note, style if state.status == "failed" else "dim")
        table.add_row(Text(state.path.name), word, _bar(state, unicode), rate, left, note)
    return Group(table, Text(summary(states)))


def summary(states: Iterable[RunState]) -> str:
    """Return how many runs are in which state."""
    counts = Counter(state.status for state in states)
    return f"{time.strftime('%H:%M:%S')}  " + ", ".join(
        f"{counts[status]} {status}" for status in STYLES if status in ALWAYS or counts[status]
    )


def _bar(state: RunState, unicode: bool) -> str:
    full, empty = ("\u2501", "\u2508") if unicode else ("#", "-")
    done = int(BAR_WIDTH * state.done)
    return f"{full * done}{empty * (BAR_WIDTH - done)} {int(100 * state.done):3d}%"
