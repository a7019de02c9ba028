"""Variants of one method on some task sets, and the table of their final win rates next to the default's."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from refil import stats
from refil.experiments import with_more_seeds
from refil.storage import serialization
from refil.storage.run_dir import RunDir
from refil.training import config
from refil.training.config import RunConfig

DEFAULT = "default"


@dataclass(frozen=True)
class Variant:
    """Options of the method and of training that differ from the defaults."""

    method: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)


Groups = dict[str, dict[str, Variant]]  # variants by name, grouped by what they change


def by_name(groups: Groups) -> dict[str, Variant]:
    """Return the default and all variants."""
    return {DEFAULT: Variant()} | {name: each for values in groups.values() for name, each in values.items()}


def label(name: str, env: str) -> str:
    """Return the label of a variant on a task set."""
    return f"{name} on {env}"


def run(variant: Variant, method: str, env: str, **train: Any) -> RunConfig:
    """Return the run of a variant on a task set, with these options of training unless the variant changes them."""
    return config.default(env, method).with_options(method_options=variant.method, **(train | variant.train))


def write_table(groups: Groups, envs: Iterable[str], done: dict[str, RunDir], path: Path) -> Path:
    """Write the table of finished runs."""
    serialization.write_atomic(path, ("\n".join(table(groups, envs, done)) + "\n").encode())
    return path


def table(groups: Groups, envs: Iterable[str], done: dict[str, RunDir]) -> Iterator[str]:
    """Return the lines of a table of final win rates, and of their difference from the default; missing runs are left out."""
    finals, envs = {name: _finals(run) for name, run in done.items()}, tuple(envs)
    yield f"| option (default) | value | {' | '.join(f'{env} | difference' for env in envs)} |"
    yield "|---|---" + "|---|---:" * len(envs) + "|"
    for group, values in {"": (DEFAULT,), **groups}.items():
        for name in values:
            cells = [cell for env in envs for cell in _cells(finals, name, env)]
            if any(cells):
                yield f"| {group} | {name} | {' | '.join(cells)} |"
    yield ""
    yield (
        f"Win rates are final ({stats.FINAL_MEANING}): the mean of the seeds, and each seed. The difference from the default is"
        " in percentage points."
    )


def _cells(finals: dict[str, np.ndarray], name: str, env: str) -> tuple[str, str]:
    """Return the win rate of a variant and its difference from the default; nothing if it has not been run."""
    found, default = finals.get(label(name, env)), finals.get(label(DEFAULT, env))
    if found is None:
        return "", ""
    rate = f"{found.mean():.0%} ({', '.join(f'{value:.0%}' for value in found)})"
    return rate, "" if default is None or name == DEFAULT else f"{100 * (found.mean() - default.mean()):+.0f}"


def _finals(run: RunDir) -> np.ndarray:
    from refil.plots import learning_curves

    return learning_curves.final_values(with_more_seeds(run))
