"""Runs as figures read them. No environment and no method file is imported: plotting somebody else's run executes no code."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refil import methods, plugins, stats
from refil.errors import RefilError
from refil.plots import PlotOptions
from refil.storage import run_dir, serialization
from refil.storage.run_dir import RunDir
from refil.training import config

Curves = dict[str, list[RunDir]]  # the runs whose seeds form one curve, by label
MAX_LETTERS = 12  # longest value of an option in a title
NOT_METRICS = ("seed", "env_steps")


def method_label(run: RunDir) -> str:
    """Return the paper's name of a run's method, or the file name of a user's method."""
    name = _section(run, "method")["name"]
    return methods.label(name) if name in plugins.names(config.METHODS) else _short(name)


def environments(runs: Sequence[RunDir]) -> list[str]:
    """Return the name of each run's environment, followed by the options in which environments of one name differ."""
    sections = [_section(run, "env") for run in runs]
    names = {section["name"] for section in sections}
    short = {name: name if [_short(other) for other in names].count(_short(name)) > 1 else _short(name) for name in names}
    return [", ".join([short[own["name"]], *_differing(own, sections)]) for own in sections]


def panels(curves: Curves) -> dict[str, Curves]:
    """Return the curves of each environment."""
    pairs = [(label, run) for label, runs in curves.items() for run in runs]
    split: dict[str, Curves] = {}
    for env, (label, run) in zip(environments([run for _, run in pairs]), pairs, strict=True):
        split.setdefault(env, {}).setdefault(label, []).append(run)
    return split


def series(runs: Sequence[RunDir], metric: str) -> list[np.ndarray]:
    """Return the steps and values `[points, 2]` of a metric for each seed of some runs."""
    return [points for run in runs for points in _series(run, metric).values()]


def by_task(runs: Sequence[RunDir], label: str) -> np.ndarray:
    """Return the win rates `[seeds, tasks]` of some runs, which must have played the same tasks."""
    rates = [run.by_task() for run in runs]
    if any(list(tasks) != list(rates[0]) for tasks in rates):
        raise RefilError(f"the runs of {label!r} have different tasks")
    return np.concatenate([np.array(list(tasks.values())).T for tasks in rates])


def task_episodes(runs: Sequence[RunDir]) -> str:
    """Return the number of episodes per seed and task in words, as a range if runs differ."""
    counts = sorted({json.loads(serialization.read_text(run.path / run_dir.BY_TASK))["episodes"] for run in runs})
    return " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))


def check_by_task_options(figure: str, options: PlotOptions) -> None:
    """Raise if options were given that a figure of win rates by task does not have."""
    default = PlotOptions(title=options.title, size=options.size)
    if options != default:
        names = [name for name, value in vars(options).items() if value != getattr(default, name)]
        raise RefilError(f"the figure {figure} draws win rates of by_task.json, without the options {', '.join(names)}")


def eval_episodes(run: RunDir) -> int:
    """Return the number of episodes of each evaluation of a run."""
    path = run.path / run_dir.CONFIG
    try:
        config = json.loads(serialization.read_text(path))
        return int(config.get("train", config)["eval_episodes"])  # version 0.1 stored options without sections
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefilError(f"{path} is not a config of refil: {error}") from error


def _short(name: str) -> str:
    return Path(name).stem if name.endswith(".py") else name


def _series(run: RunDir, metric: str) -> dict[int, np.ndarray]:
    lines = run.metrics()
    if not (found := stats.series(lines, metric)):
        names = sorted(
            {name for line in lines for name, value in line.items() if stats.is_number(value)}.difference(NOT_METRICS)
        )
        if metric == "win_rate" or not names:
            raise RefilError(f"{run.path} has no evaluation yet")
        raise RefilError(f"{run.path} has no metric {metric!r}; available: {', '.join(names)}")
    return found


def _section(run: RunDir, name: str) -> dict[str, Any]:
    path = run.path / run_dir.CONFIG
    try:
        section = json.loads(serialization.read_text(path))[name]
        return section | {"name": str(section["name"])}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RefilError(f"{path} is not a config of refil: {error}") from error


def _differing(own: dict[str, Any], sections: list[dict[str, Any]]) -> list[str]:
    same_name = [section for section in sections if section["name"] == own["name"]]
    return [
        f"{option} {str(own[option])[:MAX_LETTERS]}"
        for option in own
        if all(option in section for section in same_name) and any(section[option] != own[option] for section in same_name)
    ]
