"""Processes that train a run."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from refil.storage import run_dir
from refil.sweeps.process import ENDS_WITH_PARENT, Process, last_error
from tests.sweeps.tiny_sweeps import ROOT
from tests.tiny_runs import small

HERE = {"PYTHONPATH": str(ROOT)}


def wait(process: Process):
    while (ended := process.poll()) is None:
        time.sleep(0.05)
    return ended


def test_the_error_of_a_process_is_what_it_said_last(tmp_path):
    path = run_dir.create(tmp_path / "run", small()).path
    (path / run_dir.CONFIG).write_text("{")
    ended = wait(Process(path, HERE, None))
    assert ended.how == "failed"
    assert "config.json is not a config of refil" in ended.error
    assert ended.error in (path / "log.txt").read_text()
    assert last_error(["Traceback", "ValueError: no", ""]) == "ValueError: no"
    assert last_error([]) == ""


def test_a_killed_process_says_by_what(tmp_path):
    process = Process(run_dir.create(tmp_path / "run", small()).path, HERE, None)
    process.kill()
    ended = wait(process)
    assert (ended.how, ended.error[:36]) == ("failed", "the process was ended by SIGKILL, pe")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_process_ends_with_its_parent():
    """It ends even if the parent is killed: the kernel sends SIGTERM."""
    child = "print('ready', flush=True); import time; time.sleep(60)"
    parent = (
        "import os, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {ENDS_WITH_PARENT!r}, str(os.getpid()), '-c', {child!r}])\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    started = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    words = {started.stdout.readline().strip() for _ in range(2)}
    pid = int(next(iter(words - {"ready"})))
    started.send_signal(signal.SIGKILL)
    started.wait()
    deadline = time.monotonic() + 30
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
