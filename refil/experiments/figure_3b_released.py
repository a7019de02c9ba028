"""Figure 2b's oracles as the authors' released code trains them: true groups are lost after the first instant."""

from dataclasses import replace
from functools import partial

from refil.experiments import figure_3b
from refil.training.config import Experiment

conclude = partial(figure_3b.conclude, name="figure_2b_released.png")
ORACLES = ("REFIL (Fixed Oracle)", "REFIL (Randomized Oracle)")


def planned() -> dict[str, Experiment]:
    """The two oracles with that mistake."""
    return {f"{label}, released": with_mistake(figure_3b.planned()[label]) for label in ORACLES}


def with_mistake(oracle: Experiment) -> Experiment:
    """The same, with the groups forgotten."""
    method = replace(oracle.options.method, forget_groups=True)
    return replace(oracle, options=replace(oracle.options, method=method))
