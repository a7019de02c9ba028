"""Figure 3b's oracles as the authors' released code trains them: the true groups are lost after the first timestep."""

from functools import partial

from refil.experiments import figure_3b
from refil.training.config import RunConfig

ORACLES = ("REFIL (Fixed Oracle)", "REFIL (Randomized Oracle)")
report = partial(figure_3b.report, name="figure_3b_released.png")


def runs() -> dict[str, RunConfig]:
    """Return the two oracles with that mistake."""
    oracles = {label: figure_3b.runs()[label] for label in ORACLES}
    return {
        f"{label}, released": oracle.with_options(method_options={"forget_groups": True}) for label, oracle in oracles.items()
    }
