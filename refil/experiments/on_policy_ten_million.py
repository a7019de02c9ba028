"""On-policy REFIL with the paper's 10M steps: what makes it learn from fewer steps; 3 seeds.

Every run has schedules of this length. By default on-policy training makes an update per 512 steps, where training from a
replay buffer makes one per episode. All runs on the first task set come first, to choose what is tried on the others.
"""

from functools import partial
from pathlib import Path

from refil.experiments import _variants
from refil.experiments._variants import Groups, Variant
from refil.experiments.figure_4 import TASK_SETS
from refil.storage.run_dir import RunDir
from refil.training.config import RunConfig

METHOD = "refil_pqn"
STEPS = 10_000_000
SEEDS = 3

SHARED = {"shared_targets": True}
MORE_UPDATES = {"envs": 256}  # a quarter of the environments in as many minibatches: four times the updates per step
GROUPS: Groups = {
    "actions aimed at entities (an output per tag)": {"shared targets": Variant(SHARED)},
    "updates (one per 512 steps), with shared targets": {
        "4 times the updates": Variant(SHARED, MORE_UPDATES),
        "8 times the updates": Variant(SHARED, MORE_UPDATES | {"epochs": 8}),
    },
    "shared targets, 4 times the updates, and": {
        "epsilon annealed over 20 %": Variant(SHARED, MORE_UPDATES | {"epsilon_fraction": 0.2}),
        "learning rate 0.00025": Variant(SHARED, MORE_UPDATES | {"lr": 2.5e-4}),
        "lambda 0.65": Variant(SHARED, MORE_UPDATES | {"td_lambda": 0.65}),
        "memory 256": Variant(SHARED | {"memory": 256}, MORE_UPDATES),
        "learnability 0.5": Variant(SHARED, MORE_UPDATES | {"learnability": 0.5}),
    },
}
VARIANTS = _variants.by_name(GROUPS)


def runs() -> dict[str, RunConfig]:
    """Return every variant on each task set."""
    run = partial(_variants.run, steps=STEPS, seeds=SEEDS, eval_every=STEPS // 50)
    return {_variants.label(name, env): run(VARIANTS[name], METHOD, env) for env in TASK_SETS for name in VARIANTS}


def report(done: dict[str, RunDir], out: Path) -> Path:
    """Write final win rates, and their difference from the default, as a table."""
    return _variants.write_table(GROUPS, TASK_SETS, done, out / "on_policy_ten_million.md")
