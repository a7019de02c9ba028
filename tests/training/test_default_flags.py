"""Exactness under the compiler flags that users run: other tests compile with few optimizations (see `tests/conftest.py`)."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
TINY = [
    *("train", "group_matching", "--env.agents", "3", "--env.cells", "3", "--env.horizon", "6"),
    *("--method.size", "8", "--method.heads", "2", "--method.mixing", "4", "--steps", "9000"),
    *("--batch", "5", "--pack", "--envs", "2", "--buffer", "20"),
    *("--eval-every", "1500", "--eval-episodes", "4", "--log-every", "20", "--save-every", "0.005"),
]


def start(*arguments: str) -> subprocess.Popen:
    """Start the command line without the compiler flags of the tests, and without programs compiled under them."""
    environment = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR")}
    environment["XDG_CACHE_HOME"] = os.path.join(environment["REFIL_TEST_CACHE"], "default_flags")
    command = [sys.executable, "-m", "refil", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def train(*arguments: str) -> None:
    process = start(*arguments)
    errors = process.communicate(timeout=600)[1]
    assert process.returncode == 0, errors


def lines(path: Path, seed: int) -> list[dict]:
    found = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{name: line[name] for name in line if name != "seconds"} for line in found if line["seed"] == seed]


def model(path: Path, seed: int) -> bytes:
    return (path / f"model_seed_{seed}.safetensors").read_bytes()


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> Path:
    """A run of seeds 0 and 1 that nothing interrupted."""
    path = tmp_path_factory.mktemp("runs") / "both"
    train(*TINY, "--seeds", "2", "--out", str(path))
    return path


def test_a_run_that_is_killed_after_a_save_resumes_to_the_same_bytes(both, tmp_path):
    path = tmp_path / "killed"
    process, deadline = start(*TINY, "--seeds", "2", "--out", str(path)), time.monotonic() + 300
    while not (path / "checkpoint.safetensors").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (path / "checkpoint.safetensors").exists()
    train("train", "--resume", str(path))
    for seed in (0, 1):
        assert model(path, seed) == model(both, seed)
        assert lines(path, seed) == lines(both, seed)


def test_a_seed_alone_equals_the_seed_in_a_batch(both, tmp_path):
    path = tmp_path / "alone"
    train(*TINY, "--seed", "1", "--out", str(path))
    assert lines(path, 1) == lines(both, 1)
    ours, theirs = (safetensors(folder) for folder in (path, both))
    assert ours == theirs


def safetensors(folder: Path) -> bytes:
    """Return the arrays of seed 1, without the config in the header: it has another number of seeds."""
    content = model(folder, 1)
    return content[8 + int.from_bytes(content[:8], "little") :]
