"""Contribution of each ingredient of on-policy REFIL: one option changed at a time, 16M steps, 3 seeds.

Every run has schedules of its own length. Runs are in the order of the ingredients, so that a sweep that is stopped early
has finished the first ones on both sets.
"""

from collections.abc import Iterator
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

TASK_SETS = ("3-8sz", "3-8MMM")
METHOD = "refil_pqn"
STEPS = 16_000_000
SEEDS = 3


@dataclass(frozen=True)
class Variant:
    """Options of the method and of training that differ from the defaults of REFIL (PQN)."""

    method: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)


DEFAULT = "default"
# Ingredients, and their values other than the default, the most important ones first.
INGREDIENTS: dict[str, dict[str, Variant]] = {
    "weight of the imagined loss (0.5)": {
        "imagined weight 0": Variant({"imagined_weight": 0.0}),
        "imagined weight 0.25": Variant({"imagined_weight": 0.25}),
    },
    "joint value (QMIX)": {"VDN": Variant({"mixer": "vdn"})},
    "network of the targets (average)": {
        "targets current": Variant(train={"targets": "current"}),
        "targets frozen": Variant(train={"targets": "frozen"}),
    },
    "lambda of the targets (0.85)": {
        "lambda 0.65": Variant(train={"td_lambda": 0.65}),
        "lambda 0.95": Variant(train={"td_lambda": 0.95}),
    },
    "size of the memory (128)": {
        "memory 64": Variant({"memory": 64}),
        "memory 256": Variant({"memory": 256}),
    },
    "layer normalization (on)": {"no layer norm": Variant({"layer_norm": False})},
    "environments (1024)": {
        "256 environments": Variant(train={"envs": 256}),
        "4096 environments": Variant(train={"envs": 4096}),
    },
    "epochs (4)": {
        "2 epochs": Variant(train={"epochs": 2}),
        "8 epochs": Variant(train={"epochs": 8}),
    },
}
VARIANTS = {DEFAULT: Variant()} | {name: each for values in INGREDIENTS.values() for name, each in values.items()}


def runs() -> dict[str, RunConfig]:
    """Return every variant on each task set."""
    return {label(name, env): run(VARIANTS[name], env) for name in VARIANTS for env in TASK_SETS}


def label(name: str, env: str) -> str:
    """Return the label of a variant on a task set."""
    return f"{name} on {env}"


def run(variant: Variant, env: str) -> RunConfig:
    """Return the run of a variant on a task set."""
    base = config.default(env, METHOD)
    return base.with_options(method_options=variant.method, steps=STEPS, seeds=SEEDS, eval_every=STEPS // 50, **variant.train)


def report(done: dict[str, RunDir], out: Path) -> Path:
    """Write final win rates, and their difference from the default, as a table."""
    path = out / "on_policy_ablations.md"
    serialization.write_atomic(path, ("\n".join(_table(done)) + "\n").encode())
    return path


def _table(done: dict[str, RunDir]) -> Iterator[str]:
    finals = {name: _finals(run) for name, run in done.items()}
    yield f"| ingredient (default) | value | {' | '.join(f'{env} | difference' for env in TASK_SETS)} |"
    yield "|---|---" + "|---|---:" * len(TASK_SETS) + "|"
    for ingredient, values in {"": (DEFAULT,), **INGREDIENTS}.items():
        for name in values:
            cells = [cell for env in TASK_SETS for cell in _cells(finals, name, env)]
            if any(cells):
                yield f"| {ingredient} | {name} | {' | '.join(cells)} |"
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
