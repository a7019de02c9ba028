"""Estimates of how long runs take, from comparable ones: their own first part, other runs of the sweep, published results."""

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from refil.errors import RefilError
from refil.storage import run_dir, serialization
from refil.storage.progress import duration
from refil.sweeps import state
from refil.sweeps.plan import PlannedRun
from refil.training import stored

PUBLISHED = Path("results")  # of a checkout of the repository, in the current folder
SAME = ("envs", "precision")  # options of training that the speed depends on most, besides environment and method
Values = dict[str, Any]


class Estimate(NamedTuple):
    """The remaining time of a run, and the folder that it was judged by; neither is known without a comparable run."""

    seconds: float | None
    source: Path | None


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
    seconds, source = times[run]
    if seconds is None:
        return "time unknown"
    return f"about {duration(seconds)}" + ("" if source == run.path else f", judged by {source}")


def _estimate(run: PlannedRun, done: list[tuple[Path, Values, float]]) -> Estimate:
    lines, train = state.metrics(run.path), run.config.train
    if lines and (left := state.seconds_left(lines, train.steps)) is not None:
        return Estimate(left, run.path)
    asked = stored.parse(run.config.to_json(), run.label)
    similar = [found for found in done if _key(found[1]) == _key(asked)]
    if not similar:
        return Estimate(None, None)
    path, values, speed = min(similar, key=lambda found: abs(found[1]["train"]["seeds"] - train.seeds))
    more = max(1.0, train.seeds / values["train"]["seeds"])  # seeds train together, at worst one after the other
    return Estimate(train.steps * more / speed, path)


def _comparable(folders: list[Path], on_gpu: bool) -> Iterator[tuple[Path, Values, float]]:
    """Return runs with their configs and speeds, in steps of each seed per second, on the same kind of device."""
    for path in sorted({file.parent for folder in folders for file in folder.rglob(run_dir.CONFIG)}):
        try:
            values = stored.parse(serialization.read_text(path / run_dir.CONFIG), str(path))
            lines = state.metrics(path)
        except RefilError:
            continue
        if "train" not in values or not lines or lines[-1]["env_steps"] < values["train"]["steps"]:
            continue
        if ("peak_bytes" in lines[-1]) == on_gpu and lines[-1].get("seconds"):  # only GPUs report their memory
            yield path, values, lines[-1]["env_steps"] / lines[-1]["seconds"]


def _key(values: Values) -> tuple[Any, ...]:
    return values["env"], values["method"], *(values["train"].get(name) for name in SAME)
