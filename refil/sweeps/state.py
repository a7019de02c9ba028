"""The state of a run, read from its folder alone: no code of the run is executed, and it may be training meanwhile."""

import functools
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

from refil import stats
from refil.errors import RefilError
from refil.storage import claims, metadata, records, regular, run_dir, serialization
from refil.sweeps.plan import ERROR
from refil.training import stored

LONGEST_ERROR = 10_000  # bytes
Status = Literal["finished", "running", "failed", "waiting"]
Lines = list[dict[str, Any]]


class RunState(NamedTuple):
    """How far a run is; `done` is the fraction of all steps that every seed has made."""

    path: Path
    status: Status
    done: float = 0.0
    win_rate: float | None = None
    seconds_left: float | None = None
    note: str = ""  # where it runs, or why it failed


def find(folder: Path) -> list[Path]:
    """Return the folders of runs in a folder, or the folder itself if it holds a run."""
    if (folder / run_dir.CONFIG).exists():
        return [folder]
    found = sorted(path.parent for path in folder.glob(f"*/{run_dir.CONFIG}"))
    if not found:
        raise RefilError(f"{folder} holds no run and no folder of runs")
    return found


def read(path: Path) -> RunState:
    """Return the state of a run."""
    holder = claims.holder(path)
    try:
        steps, seeds = _size(path)
        lines = metrics(path) if holder else run_dir.open_run(path).metrics()  # compared with the checkpoint
    except RefilError as error:
        return RunState(path, "failed", note=str(error))
    done = {line["seed"]: min(line["env_steps"] / steps, 1.0) for line in lines}
    fraction = min(done.values()) if len(done) == seeds else 0.0
    if holder is not None:
        return RunState(path, "running", fraction, _latest(lines), seconds_left(lines, steps), str(holder))
    note = _changed_steps(path, steps)
    if fraction == 1.0:
        return RunState(path, "finished", 1.0, _final(lines), note=note)
    if error := read_error(path):
        return RunState(path, "failed", fraction, _latest(lines), note=error)
    return RunState(path, "waiting", fraction, _latest(lines), seconds_left(lines, steps), note)


def metrics(path: Path) -> Lines:
    """Return the lines of metrics without comparing them with the checkpoint; the last one may be cut off by a crash."""
    file = path / run_dir.METRICS
    try:
        found = os.stat(file)
    except OSError:
        return []
    return _parse(file, found.st_mtime_ns, found.st_size)


def seconds_left(lines: Lines, steps: int) -> float | None:
    """Return the time that the remaining steps take at the speed of the second half of the lines; None if it is unknown."""
    own = [line for line in lines if line["seed"] == lines[0]["seed"] and stats.is_number(line.get("seconds"))]
    if len(own) < 2:
        return None
    first, last = own[(len(own) - 1) // 2], own[-1]
    made, seconds = last["env_steps"] - first["env_steps"], last["seconds"] - first["seconds"]
    return max(0, steps - last["env_steps"]) * seconds / made if made > 0 else None


def read_error(path: Path) -> str:
    """Return why the last process that trained here failed, or nothing; whoever owns the folder may have put anything there."""
    file = path / ERROR
    if file.is_symlink():
        return f"{file} is a symbolic link, which is not read"
    try:
        with regular.open_file(file) as opened:
            return opened.read(LONGEST_ERROR).decode(errors="replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot read {file}: {error.strerror or error}"


@functools.lru_cache(maxsize=256)
def _parse(file: Path, modified: int, size: int) -> Lines:
    return list(records.parse_metrics(serialization.read_bytes(file), file))


def _size(path: Path) -> tuple[int, int]:
    file = path / run_dir.CONFIG
    values = stored.parse(serialization.read_text(file), str(file))
    section = values.get("train", values)  # version 0.1 had no sections
    try:
        return max(1, int(section["steps"])), int(section["seeds"])
    except (KeyError, TypeError, ValueError) as error:
        raise RefilError(f"{file} is not a config of refil: {error}") from error


def _changed_steps(path: Path, steps: int) -> str:
    """Say that the number of steps is not the one that was last saved: it was edited, or training with it saved nothing yet."""
    try:
        saved = stored.parse(metadata.read_saved(path / run_dir.CHECKPOINT).config, "")["train"]["steps"]
    except (RefilError, KeyError, TypeError):  # no checkpoint, or one of version 0.1
        return ""
    return "" if saved == steps else f"train.steps is {steps:,}, and was {saved:,} when the run was last saved"


def _latest(lines: Lines) -> float | None:
    rates = {line["seed"]: line["win_rate"] for line in lines if stats.is_number(line.get("win_rate"))}
    return sum(rates.values()) / len(rates) if rates else None


def _final(lines: Lines) -> float | None:
    finals = [stats.final(points) for points in stats.series(lines, "win_rate").values()]
    return sum(finals) / len(finals) if finals else None
