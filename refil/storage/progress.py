"""Progress: what a command is doing and for how long, live on a terminal and as an occasional line elsewhere."""

import contextlib
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import IO, Any, Protocol, cast, runtime_checkable

from rich.console import Console
from rich.live import Live
from rich.text import Text

SECONDS_BETWEEN_LINES = 10.0  # where output is not a terminal
SECONDS_BETWEEN_POINTS = 0.5  # between measurements of the speed
SECONDS_UNTIL_SPEED = 2.0  # earlier estimates are mostly noise
SECONDS_OF_SPEED = 60.0
SECONDS_UNTIL_ESTIMATE = 10.0  # learning time before the time of the whole run is announced
SECONDS_OF_LONG_RUN, SECONDS_OF_SHORT_RUN = 3600, 2400  # runs that get a hint, and what it suggests
REFRESHES_PER_SECOND = 4
BAR_WIDTH = 12
SPINNER, ASCII_SPINNER = "\u280b\u2819\u2838\u2834\u2826\u2807", "-\\|/"


class Latest:
    """The latest loss and evaluation of every seed, and whether updates have begun."""

    def __init__(self) -> None:
        self.learning = False
        self.losses: dict[int, float] = {}
        self.win_rates: dict[int, float] = {}
        self.evaluated_at: dict[int, int] = {}  # environment steps

    def add(self, lines: Sequence[dict[str, Any]]) -> None:
        """Update the numbers from lines of metrics."""
        for line in lines:
            if line.get("loss") is not None:
                self.losses[line["seed"]] = line["loss"]
            if line.get("win_rate") is not None:
                self.win_rates[line["seed"]] = line["win_rate"]
                self.evaluated_at[line["seed"]] = line["env_steps"]

    def __str__(self) -> str:
        words = []
        if rates := self.win_rates.values():
            spread = f" ({min(rates):.0%} to {max(rates):.0%}, {len(rates)} seeds)" if len(rates) > 1 else ""
            words.append(f"win rate {sum(rates) / len(rates):.0%}{spread} at step {min(self.evaluated_at.values()):,}")
        if losses := self.losses.values():
            words.append(f"loss {sum(losses) / len(losses):.3g}")
        return "  ".join(words)


@runtime_checkable
class Progress(Protocol):
    """Shows the progress of training."""

    def message(self, text: str) -> None: ...
    def log(self, text: str) -> None: ...
    def phase(self, text: str) -> None: ...
    def refresh(self, steps: int, latest: Latest, /) -> None: ...


class NoProgress:
    """Shows nothing."""

    def message(self, text: str) -> None:
        """Ignore a message for the user."""

    def log(self, text: str) -> None:
        """Ignore a line of the log."""

    def phase(self, text: str) -> None:
        """Ignore what is done now."""

    def refresh(self, steps: int, latest: Latest) -> None:
        """Ignore the number of steps made."""


class ProgressBar:
    """Shows on stderr what is being done and for how long, and how many of `total` steps each seed has made."""

    def __init__(self, total: int | None = None) -> None:
        self.console = Console(file=cast("IO[str]", _NonFailingStream(sys.stderr)))
        self.is_live = self.console.is_terminal and not self.console.is_dumb_terminal
        self.total, self.steps, self.latest = total, None, Latest()
        self.text, self.since = "starting", time.monotonic()
        self.speed, self.learning, self.announced = Speed(), False, False
        self.closed = threading.Event()
        self.reminder = threading.Thread(target=self._remind, name="progress", daemon=True)
        rate = REFRESHES_PER_SECOND
        self.live = Live(get_renderable=self._render, console=self.console, refresh_per_second=rate, transient=total is None)

    def __enter__(self) -> "ProgressBar":
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

    def phase(self, text: str) -> None:
        """Show what is done from now on, with a timer."""
        self.text, self.since = text, time.monotonic()
        self.log(f"{text} ...")

    def update(self, text: str) -> None:
        """Show another text for the phase in progress, without resetting its timer."""
        self.text = text

    def log(self, text: str) -> None:
        """Print a line where there is no live display."""
        if not self.is_live:
            self.message(text)

    def message(self, text: str) -> None:
        """Print a line in any case, above the live display if there is one."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def refresh(self, steps: int, latest: Latest) -> None:
        """Show how many environment steps each seed has made on average, and the latest numbers."""
        if not self.learning and latest.learning:
            self.learning, self.speed = True, Speed()  # episodes without learning are faster
        self.speed.add(time.monotonic(), steps)
        first, self.steps, self.latest = self.steps is None, steps, latest
        if first:
            self.log("  ".join(self.lines()))
        if self.total and self.learning and not self.announced and self.speed.seconds >= SECONDS_UNTIL_ESTIMATE:
            self.announced = True
            for line in estimate(self.total, steps, self.speed.per_second or 0.0):
                self.message(line)

    def lines(self) -> list[str]:
        """Return what is shown now, as one or two lines of less than 80 characters."""
        if self.steps is None or not self.total:
            return [f"{self.text}  {_timer(time.monotonic() - self.since)}"]
        words = [f"{self.steps / self.total:.0%}  {self.steps:,} of {self.total:,} steps"]
        if speed := self.speed.per_second:
            words += [f"{speed:,.0f} steps/s", f"{duration((self.total - self.steps) / speed)} left"]
        return ["  ".join(words), *filter(None, [str(self.latest)])]

    def _render(self) -> Text:
        first, *rest = self.lines()
        unicode = self.console.encoding.startswith("utf")
        if self.steps is None or not self.total:
            frames = SPINNER if unicode else ASCII_SPINNER
            first = f"{frames[int(REFRESHES_PER_SECOND * time.monotonic()) % len(frames)]} {first}"
        else:
            done = round(BAR_WIDTH * min(1.0, self.steps / self.total))
            full, empty = ("\u2501", "\u2508") if unicode else ("#", "-")
            first = f"{full * done}{empty * (BAR_WIDTH - done)} {first}"
        return Text("\n".join([first, *rest]), no_wrap=True, overflow="ellipsis")

    def _remind(self) -> None:
        while not self.closed.wait(SECONDS_BETWEEN_LINES):
            self.message("  ".join(self.lines()))


class Speed:
    """Measures steps per second over the last minute."""

    def __init__(self) -> None:
        self.points: deque[tuple[float, int]] = deque()

    def add(self, now: float, steps: int) -> None:
        """Note the number of steps made by now."""
        if len(self.points) > 1 and now - self.points[-2][0] < SECONDS_BETWEEN_POINTS:
            self.points.pop()
        self.points.append((now, steps))
        while len(self.points) > 2 and now - self.points[1][0] >= SECONDS_OF_SPEED:
            self.points.popleft()

    @property
    def seconds(self) -> float:
        """The time over which the speed is measured."""
        return self.points[-1][0] - self.points[0][0] if self.points else 0.0

    @property
    def per_second(self) -> float | None:
        """Steps per second; None while too little is known."""
        if self.seconds < SECONDS_UNTIL_SPEED:
            return None
        return max(1e-9, (self.points[-1][1] - self.points[0][1]) / self.seconds)


def estimate(total: int, done: int, speed: float) -> list[str]:
    """Return how long all steps take, and a shorter alternative where that is hours; nothing where it is less than a minute."""
    if (total - done) / speed < 60:
        return []
    lines = [f"About {duration(total / speed)} for {total:,} steps per seed at {speed:,.0f} steps/s."]
    fewer = _leading_digit(speed * SECONDS_OF_SHORT_RUN)
    if total / speed >= SECONDS_OF_LONG_RUN and done < fewer < total:
        lines.append(f"With {fewer:,} steps a run takes about {duration(fewer / speed)}.")
    return lines


def duration(seconds: float) -> str:
    """Return a duration in seconds, minutes, hours or days."""
    for name, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} s"


def _timer(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _leading_digit(number: float) -> int:
    power = 10 ** max(0, math.floor(math.log10(max(number, 1.0))))
    return int(number // power) * power


class _NonFailingStream:
    """A stream to which writing never fails: once nobody reads it, it discards everything."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.encoding = getattr(stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        with self._discarding():
            if self.stream is not None:
                self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._discarding():
            if self.stream is not None:
                self.stream.flush()

    def isatty(self) -> bool:
        return self.stream is not None and not self.stream.closed and self.stream.isatty()

    @contextlib.contextmanager
    def _discarding(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):  # closed, or nobody reads it
            self.stream = None
