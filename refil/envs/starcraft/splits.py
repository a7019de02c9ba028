"""Splits of the task sets into tasks to train on and tasks to hold out. Imports no JAX.

`splits.json` ships with the package and never changes; another split would get names of its own. It was drawn by `draw`.
"""

import hashlib
import json
from pathlib import Path
from typing import Literal

from refil.errors import RefilError

Tasks = Literal["all", "train", "held-out"]
FRACTION = 0.2  # fraction of the tasks of each size that is held out
VERSION = 1
PATH = Path(__file__).with_name("splits.json")


def draw(name: str, sizes: dict[str, int]) -> list[str]:
    """Return the held-out tasks of a set, given the number of allied units of each task.

    Of the tasks of each size, a fifth (rounded, at least one) is held out: those whose hashes come first. So both parts have
    armies of every size, and the choice depends on names alone.
    """
    held_out: set[str] = set()
    for size in set(sizes.values()):
        tasks = sorted((task for task in sizes if sizes[task] == size), key=lambda task: _rank(name, task))
        held_out |= set(tasks[: max(1, round(FRACTION * len(tasks)))])
    return [task for task in sizes if task in held_out]


def _rank(name: str, task: str) -> str:
    return hashlib.sha256(f"refil split {VERSION}: {name}: {task}".encode()).hexdigest()


def held_out() -> dict[str, list[str]]:
    """Return the held-out tasks of every set that is split."""
    return json.loads(PATH.read_text(encoding="utf-8"))["held-out"]


def select(name: str, task_names: list[str], tasks: Tasks) -> list[int]:
    """Return the numbers of the tasks that belong to one part of a split; raise if there is no split of this name."""
    if tasks == "all":
        return list(range(len(task_names)))
    if name not in (sets := held_out()):
        choices = f"choose 'all', or a set that is: {', '.join(sets)}"
        raise RefilError(f"env.tasks is {tasks!r}, but these tasks are not split; {choices}")
    apart = set(sets[name])
    return [number for number, task in enumerate(task_names) if (task in apart) == (tasks == "held-out")]
