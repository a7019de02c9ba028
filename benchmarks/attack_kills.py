"""Kill training at random moments, resume it, and compare its files with those of a run that nobody disturbed.

    python benchmarks/attack_kills.py --kills 50

Every run is killed up to four times, first mostly while it starts, before or while it writes its first files, then anywhere.
Each process resumes what the one before it left. When a run has reached its end, its metrics (without wall time), models,
config, checkpoint and replay page must equal those of the undisturbed run, and the next run starts, with the other algorithm:
training from a replay buffer, or on-policy with all that its runs may have.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import safe_open

GAME = ("group_matching", "--env.agents", "3", "--env.cells", "3", "--env.horizon", "6", "--seeds", "2")
SMALL = ("--method.size", "8", "--method.heads", "2", "--eval-episodes", "4", "--save-every", "0.002")
REPLAY = ("--method", "vdn_attention", "--pack", "--batch", "5", "--envs", "2", "--buffer", "20", "--log-every", "20")
ON_POLICY = ("--method", "vdn_pqn", "--envs", "4", "--minibatches", "2", "--rollout", "8", "--reset-every", "8")
RUNS = {  # by algorithm; one after the other is killed
    "replay": (*GAME, *SMALL, *REPLAY, "--eval-every", "200", "--steps", "2000"),
    "onpolicy": (
        *(*GAME, *SMALL, *ON_POLICY, "--learnability", "0.5", "--epochs", "2", "--log-every", "50", "--replay"),
        *("--eval-every", "1000", "--steps", "8000"),
    ),
}
WALL_TIME = ("seconds", "metrics_bytes", "metrics_checksum", "checksum")  # metadata that depend on wall time
TIME_LIMIT = 1800.0  # seconds for one process, on a machine that may be busy
KILLS_PER_RUN = 4


@dataclass
class Attack:
    """One attack: its folder, its random numbers and what it found."""

    folder: Path
    choose: random.Random
    kills: int = 0
    by_progress: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def train(self, run: Path, kill_after: float, of_training: bool = False) -> bool:
        """Start or resume a run and kill it after some seconds, perhaps of training; return whether it ended before that."""
        environment = os.environ | {
            "JAX_COMPILATION_CACHE_DIR": str(self.folder / "cache"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        process = subprocess.Popen(command(run), env=environment, **pipes)
        before = last_change(run)
        while of_training and process.poll() is None and last_change(run) == before:
            time.sleep(0.02)
        try:
            output, _ = process.communicate(timeout=kill_after)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.kills += 1
            stage = progress(run)
            self.by_progress[stage] = self.by_progress.get(stage, 0) + 1
            return False
        if process.returncode != 0:
            self.problems.append(f"{run.name}, after {self.kills} kills: exit {process.returncode}\n{output[-2000:]}")
        return True


def command(run: Path) -> list[str]:
    """Return the command that resumes a run, or starts it if it was killed before it wrote its config.

    The name of its folder begins with the name of its algorithm.
    """
    resume = (run / "config.json").exists()
    words = ["--resume", str(run)] if resume else [*RUNS[run.name.partition("_")[0]], "--out", str(run)]
    return [sys.executable, "-m", "refil", "train", *words]


def last_change(run: Path) -> int:
    """Return when the metrics of a run last changed; 0 if there are none."""
    metrics = run / "metrics.jsonl"
    return metrics.stat().st_mtime_ns if metrics.exists() and metrics.stat().st_size else 0


def progress(run: Path) -> str:
    """Return how far a run had come when it was killed."""
    if not (run / "config.json").exists():
        return "before config.json"
    if (run / "checkpoint.safetensors").exists():
        return "after the first checkpoint"
    has_lines = (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").stat().st_size > 0
    return "before the first checkpoint" if has_lines else "before the first line of metrics"


def trained_seconds(run: Path) -> float:
    """Return the seconds between the first and the last line of metrics."""
    first, *_, last = (json.loads(line)["seconds"] for line in (run / "metrics.jsonl").read_text().splitlines())
    return last - first


def contents(run: Path) -> dict[str, Any]:
    """Return everything in a run's folder that must not depend on interruptions or wall time."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found: dict[str, Any] = {path.name: path.read_bytes() for path in (*run.glob("model_*"), *run.glob("replay.html"))}
    found["metrics.jsonl"] = [{name: line[name] for name in line if name != "seconds"} for line in lines]
    found["config.json"] = (run / "config.json").read_bytes()
    with safe_open(run / "checkpoint.safetensors", framework="numpy") as file:
        for name in file.keys():  # noqa: SIM118 (not a dict)
            found[f"checkpoint: {name}"] = file.get_tensor(name).tobytes()
        (metadata,) = file.metadata().values()
    found["checkpoint metadata"] = {name: text for name, text in json.loads(metadata).items() if name not in WALL_TIME}
    return found


@dataclass(frozen=True)
class Whole:
    """A run that nobody disturbed: its files, and how long its process starts and trains."""

    files: dict[str, Any]
    starting: float
    training: float


def train_whole(state: Attack, algorithm: str) -> Whole:
    """Train a run twice, the second time from the compile cache, to know how long a process takes."""
    run, seconds = state.folder / f"{algorithm}_whole", 0.0
    for _ in range(2):
        started = time.monotonic()
        for path in run.glob("*"):
            path.unlink()
        state.train(run, TIME_LIMIT)
        seconds = time.monotonic() - started
    training = trained_seconds(run)
    return Whole(contents(run), seconds - training, training / 2)  # later kills would find most runs finished


def attack(folder: Path, kills: int, seed: int, algorithms: Sequence[str] = tuple(RUNS)) -> Attack:
    """Train one run of each algorithm in peace and others with kills, and compare."""
    state, number = Attack(folder, random.Random(seed)), 0
    whole = {algorithm: train_whole(state, algorithm) for algorithm in algorithms}
    while state.kills < kills and not state.problems:
        algorithm = algorithms[number % len(algorithms)]
        run, expected = folder / f"{algorithm}_killed_{number}", whole[algorithm]
        number += 1
        for process in range(min(KILLS_PER_RUN, kills - state.kills)):
            early = state.choose.random() < (1 / 4 if process else 1 / 2)
            longest = expected.starting if early else expected.training
            if state.train(run, state.choose.uniform(0, longest), of_training=not early):
                break
        state.train(run, TIME_LIMIT)  # to the end; a finished run stays as it is
        if not state.problems:
            found, files = contents(run), expected.files
            differing = sorted(name for name in files | found if files.get(name) != found.get(name))
            state.problems += [f"{run.name}: {name} differs" for name in differing]
            state.problems += [f"{run.name}: {path.name} is left" for path in run.glob(".*.part")]
        print(f"{run.name}: {state.kills} of {kills} kills, {len(state.problems)} problems", flush=True)
    return state


def main() -> None:
    """Attack and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="number of kills")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the kills")
    parser.add_argument("--folder", type=Path, help="folder for the runs (default: a temporary one)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        state = attack(args.folder or Path(temporary), args.kills, args.seed)
    for stage, count in sorted(state.by_progress.items()):
        print(f"{count:3d} kills {stage}")
    print("\n".join(state.problems) or f"All runs resumed after {state.kills} kills, and all files are equal.")
    sys.exit(bool(state.problems))


if __name__ == "__main__":
    main()
