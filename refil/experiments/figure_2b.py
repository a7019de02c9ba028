"""Figure 2b: group matching at the paper's size, REFIL beside QMIX (Attention) and the two oracles, 24 seeds each."""

from dataclasses import replace

from refil import experiment
from refil.experiment import Experiment

FIGURE = "learning_curves"
LABELS = {
    "REFIL": "refil",
    "QMIX (Attention)": "qmix_attention",
    "REFIL (Fixed Oracle)": "refil_fixed_oracle",
    "REFIL (Randomized Oracle)": "refil_randomized_oracle",
}


def runs() -> dict[str, Experiment]:
    """The four methods of the figure, on the paper's settings; metrics hold little beside the evaluations."""
    return {label: paper(experiment.default("group_matching", method)) for label, method in LABELS.items()}


def paper(default: Experiment) -> Experiment:
    """What the paper ran."""
    return replace(default, options=replace(default.options, seeds=24, log_every=10_000))
