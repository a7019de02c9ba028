"""Contribution of each ingredient of on-policy REFIL: one option changed at a time, 16M steps, 3 seeds.

Every run has schedules of its own length. Runs are in the order of the ingredients, so that a sweep that is stopped early
has finished the first ones on both sets.
"""

from functools import partial
from pathlib import Path

from refil.experiments import _variants
from refil.experiments._variants import Groups, Variant
from refil.storage.run_dir import RunDir
from refil.training.config import RunConfig

TASK_SETS = ("3-8sz", "3-8MMM")
METHOD = "refil_pqn"
STEPS = 16_000_000
SEEDS = 3

# Ingredients, and their values other than the default, the most important ones first.
INGREDIENTS: Groups = {
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
VARIANTS = _variants.by_name(INGREDIENTS)


def runs() -> dict[str, RunConfig]:
    """Return every variant on each task set."""
    run = partial(_variants.run, steps=STEPS, seeds=SEEDS, eval_every=STEPS // 50)
    return {_variants.label(name, env): run(VARIANTS[name], METHOD, env) for name in VARIANTS for env in TASK_SETS}


def report(done: dict[str, RunDir], out: Path) -> Path:
    """Write final win rates, and their difference from the default, as a table."""
    return _variants.write_table(INGREDIENTS, TASK_SETS, done, out / "on_policy_ablations.md")
