"""What a person sees while training runs: a live bar on a terminal, a line now and then elsewhere."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

SECONDS_BETWEEN_LINES = 10.0  # where there is no terminal
SECONDS_UNTIL_SPEED = 2.0  # before that, a speed is mostly noise


class Display:
    """Shows how far training is; use it as a context."""

    def __init__(self, total: int) -> None:
        self.console = Console(stderr=True)
        self.total, self.start, self.began = total, 0, None
        self.last_line = 0.0
        self.bar = Progress(
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

    def __enter__(self) -> "Display":
        self.bar.start()
        self.say("compiling (some seconds) ...")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        """A line for those without a terminal, who see no bar."""
        if not self.console.is_terminal:
            print(text, file=self.console.file, flush=True)

    def tell(self, text: str) -> None:
        """A line for everybody, above the bar where there is one."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, done: int, numbers: dict[str, float]) -> None:
        """How many environment steps are done, and numbers worth watching."""
        now = time.monotonic()
        if self.began is None:  # compiling is over; speed counts from here
            self.began, self.start = now, done
        words = [f"{name} {value:.3g}" for name, value in numbers.items()]
        if now - self.began >= SECONDS_UNTIL_SPEED:
            speed = (done - self.start) / (now - self.began)
            left = (self.total - done) / max(speed, 1e-9)
            words = [f"{speed:,.0f} steps/s", f"{left:,.0f} s left", *words]
        self.bar.update(self.task, description="training", completed=done, numbers="  ".join(words))
        if now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = now
            self.say("  ".join([f"{done / self.total:4.0%}  {done:,} of {self.total:,} steps", *words]))
