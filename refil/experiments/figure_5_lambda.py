"""Figure 5, bottom right: REFIL on 3-8sz with five values of lambda, the weight of the imagined loss; 3M steps, 3 seeds.

Lambda 0 is QMIX (Attention) and lambda 0.5 is REFIL. Both have the labels of Figure 4, in whose folder they are not repeated.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from refil.experiments import figure_4, with_more_seeds
from refil.storage import serialization
from refil.storage.run_dir import RunDir
from refil.training.config import RunConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENV = "3-8sz"
WEIGHTS = {
    figure_4.label("qmix_attention", ENV): 0.0,
    f"REFIL, lambda 0.25 on {ENV}": 0.25,
    figure_4.label("refil", ENV): 0.5,
    f"REFIL, lambda 0.75 on {ENV}": 0.75,
    f"REFIL, lambda 1 on {ENV}": 1.0,
}


def runs() -> dict[str, RunConfig]:
    """Return a run for each value of lambda."""
    refil = figure_4.run("refil", ENV)
    values = {label: refil.with_options(method_options={"imagined_weight": weight}) for label, weight in WEIGHTS.items()}
    return values | {label: figure_4.run("qmix_attention", ENV) for label, weight in WEIGHTS.items() if weight == 0}


def report(done: dict[str, RunDir], out: Path) -> Path:
    """Draw final win rates against lambda, and write the same as a table."""
    from refil.plots import learning_curves

    found = {label: with_more_seeds(done[label]) for label in WEIGHTS if label in done}
    path = out / "figure_5_lambda.png"
    serialization.save_figure(draw(found), path)
    table = learning_curves.table({f"lambda {WEIGHTS[label]:g}": runs for label, runs in found.items()})
    serialization.write_atomic(out / "figure_5_lambda.md", ("\n".join(table) + "\n").encode())
    return path


def draw(found: dict[str, list[RunDir]]) -> "Figure":
    """Draw each seed, the mean, and the interval or range of every value of lambda; name those that have not been run."""
    import numpy as np
    from matplotlib.figure import Figure

    from refil import stats
    from refil.plots import _curves, learning_curves

    figure = Figure(figsize=_curves.SINGLE, dpi=150, layout="constrained")
    axes, means, names = figure.subplots(), {}, []
    for label, weight in WEIGHTS.items():
        if label not in found:
            axes.annotate(
                "not run yet", (weight, 0.5), xycoords=("data", "axes fraction"), rotation=90, color="gray", ha="center"
            )
            continue
        finals = 100 * learning_curves.final_values(found[label])
        means[weight] = finals.mean()
        axes.plot([weight] * len(finals), finals, ".", color=_curves.COLORS[0], alpha=0.5)
        if (spread := stats.spread(finals, (0.0, 100.0))) is not None:
            axes.plot([weight, weight], np.array([spread.low, spread.high]), color=_curves.COLORS[0])
            names.append(f"{weight:g}: {spread.name}")
    values = sorted(WEIGHTS.values())
    axes.plot(values, [means.get(weight, np.nan) for weight in values], "o-", color=_curves.COLORS[0])
    axes.set(xlabel="lambda (weight of the imagined loss)", ylabel="final win rate (%)", title=ENV, xticks=values)
    figure.supxlabel("circle: mean; dots: seeds; lines: " + "; ".join(names), fontsize="x-small")
    axes.set(xlim=(-0.08, 1.08), ylim=(-2, None))
    axes.grid(alpha=0.3)
    return figure
