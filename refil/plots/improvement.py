"""Probability of improvement: how likely a seed of the first label is better than one of each other label, at the end.

Runs of different length are compared at the last step that all seeds of an environment have reached.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from refil import stats
from refil.errors import RefilError
from refil.plots import PlotOptions, _curves, _runs, learning_curves
from refil.plots._runs import Curves
from refil.stats import Estimate
from refil.storage.run_dir import RunDir

DEFAULT = PlotOptions()
ROW = 0.45  # inches
SAME_LENGTH = 0.98  # runs that end within this fraction of the longest one's steps are equally long


def draw(curves: Curves, options: PlotOptions = DEFAULT) -> Figure:
    """Draw a point and an interval for each other label, in a panel for each environment."""
    panels = _panels(curves, options)
    rows = max(map(len, panels.values()))
    size = options.size or (_curves.PANEL[0] * len(panels), 1.2 + ROW * rows)
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    all_axes = figure.subplots(1, len(panels), squeeze=False, sharex=True)[0]
    for axes, (env, compared) in zip(all_axes, panels.items(), strict=True):
        for row, (found, _) in enumerate(compared.values()):
            axes.plot([found.value], [row], "o", color=_curves.COLORS[row % len(_curves.COLORS)])
            if found.spread is not None:
                axes.plot([found.spread.low, found.spread.high], [row, row], color=_curves.COLORS[row % len(_curves.COLORS)])
        axes.axvline(0.5, color="gray", linewidth=0.8, linestyle=":")
        names = [f"{label}\n({counts})" for label, (_, counts) in compared.items()]
        axes.set_yticks(range(len(compared)), names)
        axes.set(xlim=(-0.02, 1.02), ylim=(len(compared) - 0.4, -0.6), title=env)
        axes.set_xlabel(f"probability that {next(iter(curves))} is better")
    figure.suptitle(options.title or "")
    return figure


def table(curves: Curves, options: PlotOptions = DEFAULT) -> Iterator[str]:
    """Yield the probability that the first label is better than each other one."""
    first = next(iter(curves))
    yield f"| probability that {first} has a higher final {options.metric.replace('_', ' ')} | value | interval | seeds |"
    yield "|---|---:|---|---|"
    for env, compared in _panels(curves, options).items():
        for label, (found, counts) in compared.items():
            between = "" if found.spread is None else f"{found.spread.low:.2f} to {found.spread.high:.2f} ({found.spread.name})"
            yield f"| than {label} on {env} | {found.value:.2f} | {between} | {counts} |"


def compare(ours: Sequence[RunDir], theirs: Sequence[RunDir], options: PlotOptions = DEFAULT) -> Estimate:
    """Return the probability that a seed of ours ends higher than one of theirs, after as many steps."""
    return stats.improvement(*([values] for values in final_values(ours, theirs, options)))


def final_values(
    ours: Sequence[RunDir], theirs: Sequence[RunDir], options: PlotOptions = DEFAULT
) -> tuple[np.ndarray, np.ndarray]:
    """Return the final values of the seeds of both, after the steps that all of them have reached."""
    options = equal_steps(ours, theirs, options)
    return learning_curves.final_values(ours, options), learning_curves.final_values(theirs, options)


def equal_steps(ours: Sequence[RunDir], theirs: Sequence[RunDir], options: PlotOptions = DEFAULT) -> PlotOptions:
    """Return the options with which curves of different length end at the steps that all seeds have reached."""
    ends = [points[-1, 0] for points in _runs.series([*ours, *theirs], options.metric)]
    if min(ends) >= SAME_LENGTH * max(ends):
        return options
    return replace(options, until=int(min(*ends, options.until or np.inf)))


def _panels(curves: Curves, options: PlotOptions) -> dict[str, dict[str, tuple[Estimate, str]]]:
    first, panels = next(iter(curves)), {}
    for env, members in _runs.panels(curves).items():
        if first not in members or len(members) < 2:
            raise RefilError(f"the figure improvement compares {first!r}, the first label, with other labels on {env}")
        panels[env] = {
            label: (compare(members[first], runs, options), f"{_count(members[first])} and {_count(runs)} seeds")
            for label, runs in members.items()
            if label != first
        }
    return panels


def _count(runs: Sequence[RunDir]) -> int:
    return sum(len({line["seed"] for line in run.metrics()}) for run in runs)
