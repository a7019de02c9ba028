"""Figure 4, upper row: REFIL and its ablations on the three StarCraft sets, with 3M steps and 3 seeds.

The paper has 10M steps and 5 seeds: `--steps 10000000 --seeds 5`.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from refil import experiment, files, statistics
from refil.experiment import Experiment
from refil.runs import Run

SETS = ("3-8sz", "3-8csz", "3-8MMM")
ABLATIONS = ("refil", "qmix_attention", "vdn_attention", "refil_vdn")
LAST = 0.9  # of a run's steps: the end begins here


def planned() -> dict[str, Experiment]:
    """Each method on each set; metrics hold little beside the evaluations."""
    return {
        f"{experiment.label(method)} on {env}": shortened(experiment.default(env, method))
        for env in SETS
        for method in ABLATIONS
    }


def shortened(default: Experiment) -> Experiment:
    """The paper's settings, for fewer steps and seeds."""
    return replace(default, options=replace(default.options, steps=3_000_000, seeds=3, log_every=2_000))


def conclude(done: dict[str, Run], out: Path) -> Path:
    """The figure, a panel for each set, and beside it a table."""
    from refil.plots import learning_curves

    picture = out / "figure_4.png"
    files.save_figure(learning_curves.draw_beside(panels(done)), picture)
    files.write_whole(out / "figure_4.md", ("\n".join(table(done)) + "\n").encode())
    return picture


def panels(done: dict[str, Run]) -> dict[str, dict[str, list[Run]]]:
    """For each set all methods' lines."""
    names = [experiment.label(method) for method in ABLATIONS]
    return {env: {name: [done[f"{name} on {env}"]] for name in names} for env in SETS}


def table(done: dict[str, Run]) -> Iterator[str]:
    """Of every run what was won in the last tenth of its steps and over all of them."""
    from refil.plots import learning_curves

    yield "| episodes won | at the end, by seed | mean | 95 % interval | over the whole run |"
    yield "|---|---|---:|---:|---:|"
    for label, run in done.items():
        steps, curves = learning_curves.seed_curves([run])
        ends = curves[:, steps >= LAST * steps[-1]].mean(axis=1)
        mean, low, high = statistics.mean_interval(ends)
        by_seed = ", ".join(f"{end:.0%}" for end in ends)
        yield f"| {label} | {by_seed} | {mean:.0%} | {low:.0%} to {high:.0%} | {curves.mean():.0%} |"
