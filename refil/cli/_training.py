"""Training from the command line: with a progress bar, loggers, and signals that stop it after a save."""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from refil.cli import _flags
from refil.storage import loggers
from refil.storage.progress import ProgressBar
from refil.storage.run_dir import RunDir
from refil.training.config import RunConfig


def run_training(config: RunConfig, run: RunDir, resume: bool) -> bool:
    """Train until all steps are done (True) or the user or the time limit stops it (False)."""
    from refil.training import trainer

    with ExitStack() as stack:
        stack.enter_context(_flags.flags_in_errors(config))
        config.configure()
        opened = loggers.open_loggers(config, run.path, stack)
        bar = stack.enter_context(ProgressBar(config.train.steps * config.train.seeds))
        should_stop = stack.enter_context(graceful_shutdown(config.output.stop_after, bar.message))
        return trainer.train(config, run, resume, should_stop=should_stop, progress=bar, loggers=opened).finished


@contextmanager
def graceful_shutdown(minutes: float | None, message: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether to stop: after the given minutes, or on Ctrl-C or SIGTERM.

    A second signal raises KeyboardInterrupt, which stops without saving.
    """
    received: list[int] = []
    deadline = time.monotonic() + 60 * minutes if minutes is not None else math.inf

    def handle(number: int, frame: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        message("Stopping after the next save; press Ctrl-C again to stop without saving.")

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received) or time.monotonic() > deadline
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
