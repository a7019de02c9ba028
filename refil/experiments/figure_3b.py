"""Figure 2b: group matching at the paper's size, REFIL beside QMIX (Attention) and the two oracles, 24 seeds each."""

from dataclasses import replace
from pathlib import Path

from refil.storage import serialization
from refil.storage.run_dir import Run
from refil.training import config
from refil.training.config import Experiment

LABELS = {
    "REFIL": "refil",
    "QMIX (Attention)": "qmix_attention",
    "REFIL (Fixed Oracle)": "refil_fixed_oracle",
    "REFIL (Randomized Oracle)": "refil_randomized_oracle",
}


def planned() -> dict[str, Experiment]:
    """The four methods of the figure, on the paper's settings; metrics hold little beside the evaluations."""
    return {label: paper(config.default("group_matching", method)) for label, method in LABELS.items()}


def paper(default: Experiment) -> Experiment:
    """What the paper ran."""
    return replace(default, options=replace(default.options, seeds=24, log_every=10_000))


def conclude(done: dict[str, Run], out: Path, name: str = "figure_2b.png") -> Path:
    """The figure."""
    from refil.plots import learning_curves

    picture = out / name
    serialization.save_figure(learning_curves.draw({label: [run] for label, run in done.items()}), picture)
    return picture
