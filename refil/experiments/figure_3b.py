"""Figure 3b: group matching at the paper's size with REFIL, QMIX (Attention) and the two oracles, 24 seeds each."""

from pathlib import Path

from refil.storage import serialization
from refil.storage.run_dir import RunDir
from refil.training import config
from refil.training.config import RunConfig

METHODS = {
    "REFIL": "refil",
    "QMIX (Attention)": "qmix_attention",
    "REFIL (Fixed Oracle)": "refil_fixed_oracle",
    "REFIL (Randomized Oracle)": "refil_randomized_oracle",
}


def runs() -> dict[str, RunConfig]:
    """Return the four methods of the figure with the paper's settings; metrics contain little besides evaluations."""
    defaults = {label: config.default("group_matching", method) for label, method in METHODS.items()}
    return {label: default.with_options(seeds=24, log_every=10_000) for label, default in defaults.items()}


def report(done: dict[str, RunDir], out: Path, name: str = "figure_3b.png") -> Path:
    """Draw the learning curves."""
    from refil.plots import learning_curves

    path = out / name
    serialization.save_figure(learning_curves.draw({label: [run] for label, run in done.items()}), path)
    return path
