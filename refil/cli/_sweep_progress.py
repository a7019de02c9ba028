"""The progress of a sweep: a table that is updated on a terminal, and lines elsewhere."""

import threading
import time
from pathlib import Path
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live

from refil.sweeps import state, table

SECONDS_BETWEEN_LINES = 60.0  # where output is not a terminal
REFRESHES_PER_SECOND = 0.5


class SweepProgress:
    """Shows the states of runs on stdout, below messages."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths, self.console, self.closed = paths, Console(), threading.Event()
        self.is_live = self.console.is_terminal and not self.console.is_dumb_terminal
        self.live = Live(get_renderable=self._render, console=self.console, refresh_per_second=REFRESHES_PER_SECOND)
        self.reminder = threading.Thread(target=self._remind, name="progress", daemon=True)

    def __enter__(self) -> "SweepProgress":
        if self.is_live:
            self.live.start()
        else:
            self.reminder.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.closed.set()
        if self.is_live:
            self.live.stop()
        else:
            self.reminder.join()

    def message(self, text: str) -> None:
        """Print a line, above the table if there is one."""
        self.console.print(f"{time.strftime('%H:%M:%S')}  {text}", markup=False, highlight=False, soft_wrap=True)

    def _states(self) -> list[state.RunState]:
        return [state.read(path) for path in self.paths if path.exists()]

    def _render(self) -> Group:
        return table.render(self._states(), self.console.encoding.startswith("utf"))

    def _remind(self) -> None:
        while not self.closed.wait(SECONDS_BETWEEN_LINES):
            self.console.print(table.summary(self._states()), markup=False, highlight=False, soft_wrap=True)
