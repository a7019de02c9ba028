"""Signals that reach a command at any moment."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from refil.cli import _signals

ROOT = Path(__file__).parent.parent.parent
WATCHING = "import os, time; from refil.cli import _signals as s\nwith s.watched(lambda number: s.stop()):\n "
SWALLOW = """
 print('ready', flush=True)
 while True:
  try: time.sleep(9)
  except BaseException: pass
"""


def test_a_signal_reaches_a_thread_and_handlers_are_restored():
    found, noticed = [], threading.Event()
    before = {number: signal.getsignal(number) for number in _signals.SIGNALS}
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)

    def react(number: int) -> None:
        found.append((number, threading.current_thread() is threading.main_thread()))
        if len(found) == len(_signals.SIGNALS):
            noticed.set()

    with _signals.watched(react):
        for number in _signals.SIGNALS:
            os.kill(os.getpid(), number)
        assert noticed.wait(10)
    assert sorted(found) == sorted((number, False) for number in _signals.SIGNALS)
    assert {number: signal.getsignal(number) for number in _signals.SIGNALS} == before
    assert signal.set_wakeup_fd(wakeup) == wakeup


def test_outside_the_main_thread_nothing_is_installed():
    found = []

    def run() -> None:
        with _signals.watched(print):
            found.extend(signal.getsignal(number) for number in _signals.SIGNALS)

    before = [signal.getsignal(number) for number in _signals.SIGNALS]
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == before


def test_a_hangup_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with _signals.watched(print):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", _signals.SIGNALS)
def test_a_command_that_swallows_exceptions_is_stopped_at_once(number):
    process = subprocess.Popen(
        [sys.executable, "-c", WATCHING + "print('before')" + SWALLOW],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["before\n", "ready\n"]
    started = time.monotonic()
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert time.monotonic() - started < 5
    assert (process.returncode, errors) == (130, "refil: stopped\n")


def test_what_was_printed_is_not_lost():
    done = subprocess.run(
        [sys.executable, "-c", WATCHING + "print('a result'); os.kill(os.getpid(), 2); time.sleep(9)"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout) == (130, "a result\n")


def test_a_signal_that_ends_a_forked_process_does_not_stop_its_parent():
    code = "child = os.fork()\n if not child: os.kill(os.getpid(), 15); time.sleep(9)\n"
    code += " print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])); time.sleep(0.2); print('still here')"
    done = subprocess.run([sys.executable, "-c", WATCHING + code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "-15\nstill here\n")
