"""Sweeps of two runs, as processes, and how their results are compared.

A run trains for about 10 s, so that a test sees it between its first and its last checkpoint on any machine.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from refil.errors import RefilError
from refil.storage import run_dir

ROOT = Path(__file__).parent.parent.parent
RUNS = ("a", "b")
EXPERIMENT = """
from tests.tiny_runs import small
LONG = {"steps": 96000, "eval_every": 48000, "log_every": 200, "save_every": 0.01}
def runs():
    return {"A": small("vdn_attention", **LONG), "B": small("vdn_attention", seed=7, **LONG)}
def report(done, out):
    (out / "report.txt").write_text(" ".join(done))
    return out / "report.txt"
"""


def write_experiment(folder: Path) -> Path:
    path = folder / "mine.py"
    path.write_text(EXPERIMENT)
    return path


def start(*words: object, **environment: str) -> subprocess.Popen:
    """Start a command in a session of its own, so that a test can kill it with all that it has started."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    command = [sys.executable, "-m", "refil", *map(str, words)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
    )


def finish(process: subprocess.Popen, seconds: float = 900.0) -> tuple[str, int]:
    """Return what a command printed and its exit code; it does not outlive the test."""
    try:
        return process.communicate(timeout=seconds)[0], process.returncode
    finally:
        process.kill()


def wait_until(condition: Callable[[], object], process: subprocess.Popen, seconds: float = 600.0) -> None:
    """Wait while a process runs."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_in_the_middle(path: Path) -> bool:
    """Return whether a run has saved, but not its last step."""
    try:
        run = run_dir.open_run(path)
        steps = [line["env_steps"] for line in run.saved_metrics()]
    except (RefilError, OSError):
        return False
    return bool(steps) and steps[-1] < 80000


def results(folder: Path) -> dict[str, object]:
    """Return models and metrics of all runs of a sweep, but for times and memory."""
    found: dict[str, object] = {}
    for name in RUNS:
        for path in sorted((folder / name).glob("model_seed_*.safetensors")):
            found[f"{name}/{path.name}"] = path.read_bytes()
        lines = (folder / name / run_dir.METRICS).read_text().splitlines()
        found[f"{name}/{run_dir.METRICS}"] = [
            {key: value for key, value in json.loads(line).items() if key not in ("seconds", "peak_bytes")} for line in lines
        ]
    assert len(found) == 2 * len(RUNS)
    return found
