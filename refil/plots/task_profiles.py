"""Performance profiles: the fraction of tasks on which a team wins more often than each rate, mean and spread over seeds.

`refil evaluate RUN --by-task` plays the tasks. A curve further up and to the right is better; its area is the mean win rate.
"""

from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure

from refil import stats
from refil.plots import PlotOptions, _curves, _runs
from refil.plots._runs import Curves

DEFAULT = PlotOptions()
THRESHOLDS = np.linspace(0, 1, 101)
SHOWN = (0.0, 0.25, 0.5, 0.75, 0.9)  # thresholds of the table


def draw(curves: Curves, options: PlotOptions = DEFAULT) -> Figure:
    """Draw a panel for each environment, with one curve per label."""
    _runs.check_by_task_options("task_profiles", options)
    panels = {env: _profiles(members, THRESHOLDS) for env, members in _runs.panels(curves).items()}
    counts = [{label: len(seeds) for label, seeds in drawn.items()} for drawn in panels.values()]
    titles = [f"{env}, {_curves.count_seeds(each.values())}" for env, each in zip(panels, counts, strict=True)]
    texts, order = _curves.legend_labels(counts), list(curves)
    figure, all_axes = _curves.subplots(titles, texts.values(), options, share_y=True)
    for axes, drawn in zip(all_axes, panels.values(), strict=True):
        for label, seeds in drawn.items():
            _curves.draw_curve(axes, 100 * THRESHOLDS, 100 * seeds, order.index(label), texts[label], (0.0, 100.0))
        axes.set(xlabel="win rate (%)", ylabel="tasks won more often than that (%)", xlim=(0, 100), ylim=(-2, 102))
    _curves.add_legend(figure, counts)
    return figure


def table(curves: Curves, options: PlotOptions = DEFAULT) -> Iterator[str]:
    """Yield the fraction of tasks above some win rates, mean and spread over seeds."""
    _runs.check_by_task_options("task_profiles", options)
    heads = [f"more than {threshold:.0%}" for threshold in SHOWN]
    yield f"| fraction of tasks won | {' | '.join(heads)} | spread | episodes per seed and task |"
    yield "|---|" + "---|" * len(SHOWN) + "---|---:|"
    envs = _runs.panels(curves)
    for env, members in envs.items():
        for label, seeds in _profiles(members, np.array(SHOWN)).items():
            spread = stats.spread(seeds, (0.0, 1.0))
            cells = [f"{mean:.0%}" for mean in seeds.mean(axis=0)]
            if spread is not None:
                ends = zip(np.atleast_1d(spread.low), np.atleast_1d(spread.high), strict=True)
                cells = [f"{cell} ({low:.0%} to {high:.0%})" for cell, (low, high) in zip(cells, ends, strict=True)]
            name = label if len(envs) == 1 else f"{label} on {env}"
            cells += [stats.spread_name(len(seeds)), _runs.task_episodes(members[label])]
            yield f"| {name} | {' | '.join(cells)} |"


def _profiles(members: Curves, thresholds: np.ndarray) -> dict[str, np.ndarray]:
    return {label: stats.profile(_runs.by_task(runs, label), thresholds) for label, runs in members.items()}
