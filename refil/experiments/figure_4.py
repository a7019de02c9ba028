"""Figure 4, upper row: REFIL and its ablations on the three StarCraft sets, with 3M steps and 3 seeds.

The paper has 10M steps and 5 seeds: `--steps 10000000 --seeds 5`.
"""

from dataclasses import replace
from pathlib import Path

from refil import experiment, plugins, runs
from refil.experiment import METHODS, Experiment
from refil.runs import Run

SETS = ("3-8sz", "3-8csz", "3-8MMM")
ABLATIONS = ("refil", "qmix_attention", "vdn_attention", "refil_vdn")


def planned() -> dict[str, Experiment]:
    """Each method on each set; metrics hold little beside the evaluations."""
    return {
        f"{label} on {env}": shortened(experiment.default(env, method)) for env in SETS for method, label in labels().items()
    }


def labels() -> dict[str, str]:
    """What the paper calls these methods."""
    return {method: plugins.load(METHODS, method).CARD.label for method in ABLATIONS}


def shortened(default: Experiment) -> Experiment:
    """The paper's settings, for fewer steps and seeds."""
    return replace(default, options=replace(default.options, steps=3_000_000, seeds=3, log_every=2_000))


def conclude(done: dict[str, Run], out: Path) -> Path:
    """The figure, a panel for each set."""
    from refil.plots import learning_curves

    panels = {env: {label: done[f"{label} on {env}"] for label in labels().values()} for env in SETS}
    picture = out / "figure_4.png"
    runs.save_figure(learning_curves.draw_beside(panels), picture)
    return picture
