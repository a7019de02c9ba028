"""Signals: Ctrl-C, SIGTERM and SIGHUP reach a command at once, also while it compiles or runs a callback.

Python runs signal handlers in the main thread, between two bytecodes. An exception raised there comes late while native code
compiles, and is lost in a callback that catches it. So nothing is raised here: the signal wakes a thread, which asks the
command to stop or ends the process.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_CODE = 130
SECONDS_TO_FLUSH = 0.5  # the main thread may hold the lock of standard output
SHOW_CURSOR = "\r\x1b[2K\x1b[?25h"  # a live display has hidden it


@contextlib.contextmanager
def watched(react: Callable[[int], Any]) -> Iterator[None]:
    """Call `react` with the number of every signal, in a thread of its own; outside the main thread, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    thread = threading.Thread(target=_read, args=(reader, react), name="signals", daemon=True)
    thread.start()
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    previous = {number: signal.signal(number, _handle) for number in SIGNALS if not _is_ignored(number)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(wakeup)
        os.close(writer)
        thread.join(timeout=1.0)
        if not thread.is_alive():
            os.close(reader)


def stop(text: str = "stopped", code: int = EXIT_CODE) -> NoReturn:
    """End the process at once, even while native code runs; files are replaced atomically, so that they stay intact."""
    flushing = threading.Thread(target=_flush, daemon=True)
    flushing.start()
    flushing.join(SECONDS_TO_FLUSH)
    with contextlib.suppress(OSError):
        os.write(2, f"{SHOW_CURSOR if os.isatty(2) else ''}refil: {text}\n".encode())
    os._exit(code)


def _is_ignored(number: int) -> bool:
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN  # nohup


def _handle(number: int, frame: Any) -> None:
    """Do nothing: the thread that the signal has woken reacts."""


def _read(reader: int, react: Callable[[int], Any]) -> None:
    while numbers := os.read(reader, 64):
        for number in numbers:
            if number in SIGNALS:
                react(number)


def _flush() -> None:
    with contextlib.suppress(Exception):
        sys.stdout.flush()


def _forget_in_child() -> None:
    # A forked process shares the pipe: without this, a signal that ends the child would stop the parent.
    caught = [number for number in SIGNALS if signal.getsignal(number) is _handle]
    if caught:
        signal.set_wakeup_fd(-1)
    for number in caught:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


os.register_at_fork(after_in_child=_forget_in_child)
