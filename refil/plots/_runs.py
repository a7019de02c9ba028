"""Runs as figures read them. No environment and no method file is imported: plotting somebody else's run executes no code."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refil import methods, plugins, stats
from refil.errors import RefilError
from refil.storage import run_dir, serialization
from refil.storage.run_dir import RunDir
from refil.training import config

Curves = dict[str, list[RunDir]]  # for each label the runs whose seeds form one curve
MAX_LETTERS = 12  # of an option's value in a title
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
