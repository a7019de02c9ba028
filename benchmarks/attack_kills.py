"""Kill training at random moments, resume it, and compare its files with those of a run that nobody disturbed.

    python benchmarks/attack_kills.py --kills 50

Every run is killed up to four times, first mostly while it starts, before or while it writes its first files, then anywhere.
Each process resumes what the one before it left. When a run has reached its end, its metrics (without wall time), models,
config and checkpoint must equal those of the undisturbed run, and the next run starts.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import safe_open

RUN = (
    *("group_matching", "--method", "vdn_attention", "--method.size", "8", "--method.heads", "2", "--pack"),
    *("--env.agents", "3", "--env.cells", "3", "--env.horizon", "6", "--seeds", "2", "--batch", "5", "--envs", "2"),
    *("--buffer", "20", "--eval-every", "200", "--eval-episodes", "4", "--log-every", "20", "--save-every", "0.002"),
)
WALL_TIME = ("seconds", "metrics_bytes", "metrics_checksum", "checksum")  # metadata that depend on wall time
TIME_LIMIT = 300.0  # seconds for one process
KILLS_PER_RUN = 4


@dataclass
class Attack:
    """One attack: its folder, its random numbers and what it found."""

    folder: Path
    steps: int
    choose: random.Random
    kills: int = 0
    by_progress: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def command(self, run: Path) -> list[str]:
        """Return the command that resumes a run, or starts it if it was killed before it wrote its config."""
        resume = (run / "config.json").exists()
        words = ["--resume", str(run)] if resume else [*RUN, "--steps", str(self.steps), "--out", str(run)]
        return [sys.executable, "-m", "refil", "train", *words]

    def train(self, run: Path, kill_after: float, of_training: bool = False) -> bool:
        """Start or resume a run and kill it after some seconds, perhaps of training; return whether it ended before that."""
        environment = os.environ | {
            "JAX_COMPILATION_CACHE_DIR": str(self.folder / "cache"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        process = subprocess.Popen(self.command(run), env=environment, **pipes)
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
    found: dict[str, Any] = {path.name: path.read_bytes() for path in run.glob("model_*")}
    found["metrics.jsonl"] = [{name: line[name] for name in line if name != "seconds"} for line in lines]
    found["config.json"] = (run / "config.json").read_bytes()
    with safe_open(run / "checkpoint.safetensors", framework="numpy") as file:
        for name in file.keys():  # noqa: SIM118 (not a dict)
            found[f"checkpoint: {name}"] = file.get_tensor(name).tobytes()
        (metadata,) = file.metadata().values()
    found["checkpoint metadata"] = {name: text for name, text in json.loads(metadata).items() if name not in WALL_TIME}
    return found


def attack(folder: Path, kills: int, steps: int, seed: int) -> Attack:
    """Train one run in peace and others with kills, and compare."""
    state = Attack(folder, steps, random.Random(seed))
    whole = folder / "whole"
    for _ in range(2):  # the second time from the compile cache, to know how long a process takes
        started = time.monotonic()
        for path in whole.glob("*"):
            path.unlink()
        state.train(whole, TIME_LIMIT)
        seconds = time.monotonic() - started
    expected, number = contents(whole), 0
    training = trained_seconds(whole)
    starting, training = seconds - training, training / 2  # later kills would find most runs finished
    while state.kills < kills and not state.problems:
        run = folder / f"killed_{number}"
        number += 1
        for process in range(min(KILLS_PER_RUN, kills - state.kills)):
            early = state.choose.random() < (1 / 4 if process else 1 / 2)
            if state.train(run, state.choose.uniform(0, starting if early else training), of_training=not early):
                break
        state.train(run, TIME_LIMIT)  # to the end; a finished run stays as it is
        if not state.problems:
            found = contents(run)
            differing = sorted(name for name in expected | found if expected.get(name) != found.get(name))
            state.problems += [f"{run.name}: {name} differs" for name in differing]
            state.problems += [f"{run.name}: {path.name} is left" for path in run.glob(".*.part")]
        print(f"{run.name}: {state.kills} of {kills} kills, {len(state.problems)} problems", flush=True)
    return state


def main() -> None:
    """Attack and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="number of kills")
    parser.add_argument("--steps", type=int, default=3_000, help="steps of each run")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the kills")
    parser.add_argument("--folder", type=Path, help="folder for the runs (default: a temporary one)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        state = attack(args.folder or Path(temporary), args.kills, args.steps, args.seed)
    for stage, count in sorted(state.by_progress.items()):
        print(f"{count:3d} kills {stage}")
    print("\n".join(state.problems) or f"All runs resumed after {state.kills} kills, and all files are equal.")
    sys.exit(bool(state.problems))


if __name__ == "__main__":
    main()
