"""REFIL with the paper's 10M steps and other networks than the paper's: what makes it win more battles; 3 seeds.

All runs on the first task set come first, to choose what is tried on the others.
"""

from functools import partial
from pathlib import Path

from refil.experiments import _variants
from refil.experiments._variants import Groups, Variant
from refil.experiments.figure_4 import TASK_SETS
from refil.storage.run_dir import RunDir
from refil.training.config import RunConfig

METHOD = "refil"
STEPS = 10_000_000
SEEDS = 3

GROUPS: Groups = {
    "actions aimed at entities (an output per tag)": {"shared targets": Variant({"shared_targets": True})},
    "size of the memory (64)": {"memory 128": Variant({"memory": 128})},
    "both": {"shared targets, memory 128": Variant({"shared_targets": True, "memory": 128})},
}
VARIANTS = _variants.by_name(GROUPS)


def runs() -> dict[str, RunConfig]:
    """Return every variant on each task set; metrics contain little besides evaluations."""
    run = partial(_variants.run, steps=STEPS, seeds=SEEDS, log_every=2_000)
    return {_variants.label(name, env): run(VARIANTS[name], METHOD, env) for env in TASK_SETS for name in VARIANTS}


def report(done: dict[str, RunDir], out: Path) -> Path:
    """Write final win rates, and their difference from the default, as a table."""
    return _variants.write_table(GROUPS, TASK_SETS, done, out / "replay_ten_million.md")
