"""Figure 2b's oracles as the authors' released code trains them: true groups are lost after the first instant."""

from dataclasses import replace

from refil.experiment import Experiment
from refil.experiments import figure_2b

FIGURE = "learning_curves"
ORACLES = ("REFIL (Fixed Oracle)", "REFIL (Randomized Oracle)")


def runs() -> dict[str, Experiment]:
    """The two oracles with that mistake."""
    return {f"{label}, released": with_mistake(figure_2b.runs()[label]) for label in ORACLES}


def with_mistake(oracle: Experiment) -> Experiment:
    """The same, with the groups forgotten."""
    method = replace(oracle.options.method, forget_groups=True)
    return replace(oracle, options=replace(oracle.options, method=method))
