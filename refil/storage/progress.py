"""Progress of training: a live bar on a terminal, an occasional line elsewhere."""

import time
from types import TracebackType
from typing import Protocol, runtime_checkable

from rich import progress
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

SECONDS_BETWEEN_LINES = 10.0  # without a terminal
SECONDS_UNTIL_SPEED = 2.0  # earlier estimates are mostly noise


@runtime_checkable
class Progress(Protocol):
    """Shows the progress of training."""

    def message(self, text: str) -> None: ...
    def log(self, text: str) -> None: ...
    def refresh(self, done: int, numbers: dict[str, float], /) -> None: ...


class NoProgress:
    """Shows nothing."""

    def message(self, text: str) -> None:
        """Ignore a message for the user."""

    def log(self, text: str) -> None:
        """Ignore a line of the log."""

    def refresh(self, done: int, numbers: dict[str, float]) -> None:
        """Ignore the number of steps made."""


class ProgressBar:
    """Shows the progress of training, as a context manager."""

    def __init__(self, total: int) -> None:
        self.console = Console(stderr=True)
        self.total, self.first_done, self.started = total, 0, None
        self.last_line = 0.0
        self.bar = progress.Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("compiling", total=total, completed=0, numbers="")

    def __enter__(self) -> "ProgressBar":
        self.bar.start()
        self.log("compiling (some seconds) ...")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()

    def log(self, text: str) -> None:
        """Print a line where there is no terminal, and so no bar."""
        if not self.console.is_terminal:
            print(text, file=self.console.file, flush=True)

    def message(self, text: str) -> None:
        """Print a line in any case, above the bar if there is one."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def refresh(self, done_steps: int, numbers: dict[str, float]) -> None:
        """Show the number of environment steps done, and other numbers by name."""
        now = time.monotonic()
        if self.started is None:  # compilation is over, which must not count as slow training
            self.started, self.first_done = now, done_steps
        words = [f"{name} {value:.3g}" for name, value in numbers.items()]
        if now - self.started >= SECONDS_UNTIL_SPEED:
            speed = (done_steps - self.first_done) / (now - self.started)
            seconds_left = (self.total - done_steps) / max(speed, 1e-9)
            words = [f"{speed:,.0f} steps/s", f"{seconds_left:,.0f} s left", *words]
        self.bar.update(self.task, description="training", completed=done_steps, numbers="  ".join(words))
        if now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = now
            self.log("  ".join([f"{done_steps / self.total:4.0%}  {done_steps:,} of {self.total:,} steps", *words]))
