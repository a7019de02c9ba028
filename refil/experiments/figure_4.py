"""Figure 4, upper row: REFIL and its ablations on the three StarCraft sets, with 3M steps and 3 seeds.

The paper has 10M steps and 5 seeds: `--steps 10000000 --seeds 5`.
"""

from dataclasses import replace
from pathlib import Path

from refil.storage import serialization
from refil.storage.run_dir import Run
from refil.training import config
from refil.training.config import Experiment

SETS = ("3-8sz", "3-8csz", "3-8MMM")
ABLATIONS = ("refil", "qmix_attention", "vdn_attention", "refil_vdn")


def planned() -> dict[str, Experiment]:
    """Each method on each set; metrics hold little beside the evaluations."""
    return {f"{config.label(method)} on {env}": shortened(config.default(env, method)) for env in SETS for method in ABLATIONS}


def shortened(default: Experiment) -> Experiment:
    """The paper's settings, for fewer steps and seeds."""
    return replace(default, options=replace(default.options, steps=3_000_000, seeds=3, log_every=2_000))


def conclude(done: dict[str, Run], out: Path) -> Path:
    """The figure, a panel for each set, and beside it a table."""
    from refil.plots import learning_curves

    picture = out / "figure_4.png"
    serialization.save_figure(learning_curves.draw_beside(panels(done)), picture)
    lines = learning_curves.table({label: [run] for label, run in done.items()})
    serialization.write_atomic(out / "figure_4.md", ("\n".join(lines) + "\n").encode())
    return picture


def panels(done: dict[str, Run]) -> dict[str, dict[str, list[Run]]]:
    """For each set all methods' lines."""
    names = [config.label(method) for method in ABLATIONS]
    return {env: {name: [done[f"{name} on {env}"]] for name in names} for env in SETS}
