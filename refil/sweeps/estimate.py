"""Estimates of how long runs take, from comparable ones: their own first part, other runs of the sweep, published results."""

import heapq
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from refil.errors import RefilError
from refil.storage import run_dir, serialization
from refil.storage.progress import duration
from refil.sweeps import state
from refil.sweeps.plan import PlannedRun
from refil.training import config as configs
from refil.training import stored
from refil.training.config import RunConfig

PUBLISHED = Path("results")  # of a checkout of the repository, in the current folder
IDENTITY = ("env.name", "env.sha256", "method.name", "method.sha256")
NOT_SPEED = ("env.tasks",)  # options of environments and methods that hardly change the speed
ON_GPU = ("tf32", "bf16")  # precisions of GPUs; only these report their memory too, but not in all versions
ENOUGH = 0.01  # a run that made a smaller part of the steps spent its time on compiling


class Estimate(NamedTuple):
    """The remaining time of a run, and the folder that it was judged by; neither is known without a comparable run.

    `other` says in words what was different in that run.
    """

    seconds: float | None
    source: Path | None
    other: str = ""


class Comparable(NamedTuple):
    """A finished run."""

    path: Path
    config: RunConfig
    lines: state.Lines

    def differences(self, config: RunConfig) -> dict[str, object]:
        """Return the options in which it differs, with its own values; one that it did not have yet has its default.

        Of the options of training only the number of environments and the precision count.
        """
        changed = stored.differences(self.config.to_json(), config.to_json())
        counted = {"train.envs", "train.precision"}
        return {
            path: own
            for path, (own, _) in changed.items()
            if path in counted or (path.startswith(("env.", "method.")) and path not in NOT_SPEED)
        }

    def distance(self, config: RunConfig) -> tuple[bool, int, float, bool, int]:
        """Return how different it is from another run, what changes the speed most first."""
        own, asked = self.config.train, config.train
        plugin = sum(not path.startswith("train.") for path in self.differences(config))
        is_short = self.lines[-1]["env_steps"] < ENOUGH * asked.steps
        envs = abs(math.log(own.envs / asked.envs))
        return is_short, plugin, envs, own.precision != asked.precision, abs(own.seeds - asked.seeds)

    def seconds(self, config: RunConfig) -> float:
        """Return how long another run takes at its speed."""
        asked, last = config.train, self.lines[-1]
        more = max(1.0, asked.seeds / self.config.train.seeds)  # seeds train together, at worst one after the other
        left = state.seconds_left(self.lines, asked.steps)
        if left is None or asked.steps <= last["env_steps"]:
            return more * last["seconds"] * asked.steps / last["env_steps"]
        return more * (last["seconds"] + left)


def plan_lines(runs: list[PlannedRun], slots: int, on_gpu: bool) -> Iterator[str]:
    """Return a line for each run, and the time of all of them."""
    width = max(len(run.label) for run in runs)
    missing = [run for run in runs if not run.is_finished]
    times = estimates(missing, on_gpu)
    for run in runs:
        steps = f"{run.config.train.steps:,} steps, {run.config.train.seeds} seed{'s' * (run.config.train.seeds > 1)}"
        yield f"{run.label:<{width}}  {steps}  {_describe(run, times)}"
    known = [found.seconds for found in times.values() if found.seconds is not None]
    total = f"about {duration(makespan(known, slots))}" if known else "nothing to do" if not missing else "time unknown"
    if len(known) < len(missing) and known:
        total += f" and {len(missing) - len(known)} runs of unknown length"
    yield f"{len(missing)} of {len(runs)} runs to train, {slots} at the same time: {total}"


def estimates(runs: list[PlannedRun], on_gpu: bool) -> dict[PlannedRun, Estimate]:
    """Return the remaining time of each run."""
    folders = [*sorted({run.path.parent for run in runs}), PUBLISHED]
    done = list(_comparable(folders, on_gpu))
    return {run: _estimate(run, done) for run in runs}


def makespan(seconds: list[float], slots: int) -> float:
    """Return the time that all runs take if each starts in the slot that is free first."""
    free = [0.0] * max(1, slots)
    for each in seconds:
        heapq.heappush(free, heapq.heappop(free) + each)
    return max(free)


def _describe(run: PlannedRun, times: dict[PlannedRun, Estimate]) -> str:
    if run not in times:
        return "finished"
    seconds, source, other = times[run]
    if seconds is None:
        return "time unknown"
    judged = "" if source == run.path else f", estimated from {other}: {source}" if other else f", judged by {source}"
    return f"about {duration(seconds)}{judged}"


def _estimate(run: PlannedRun, done: list[Comparable]) -> Estimate:
    lines, train = state.metrics(run.path), run.config.train
    if lines and (left := state.seconds_left(lines, train.steps)) is not None:
        return Estimate(left, run.path)
    similar = [found for found in done if not found.differences(run.config).keys() & set(IDENTITY)]
    if not similar:
        return Estimate(None, None)
    nearest = min(similar, key=lambda found: found.distance(run.config))
    return Estimate(nearest.seconds(run.config), nearest.path, _in_words(nearest, run.config))


def _in_words(found: Comparable, config: RunConfig) -> str:
    changed, train = found.differences(config), found.config.train
    if not changed:
        return ""
    options = [f"{path.partition('.')[2]} {own}" for path, own in changed.items() if not path.startswith("train.")]
    return f"runs with {', '.join([f'{train.envs} environments', *options])} in {train.precision}"


def _comparable(folders: list[Path], on_gpu: bool) -> Iterator[Comparable]:
    """Return finished runs on the same kind of device whose configs can be read without running anybody's code."""
    for path in sorted({file.parent for folder in folders for file in folder.rglob(run_dir.CONFIG)}):
        file = path / run_dir.CONFIG
        try:
            lines = state.metrics(path)
            if not lines or not lines[-1].get("seconds"):
                continue
            config = configs.read(serialization.read_text(file), str(file), path)
        except RefilError:
            continue
        was_on_gpu = "peak_bytes" in lines[-1] or config.train.precision in ON_GPU
        if was_on_gpu == on_gpu and lines[-1]["env_steps"] >= config.train.steps:
            yield Comparable(path, config, lines)
