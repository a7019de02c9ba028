"""Tasks ranked: win rate on each task, best task first for each method, mean and spread over seeds.

`refil evaluate RUN --by-task` plays the tasks.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure

from refil.plots import PlotOptions, _curves, _runs
from refil.plots._runs import Curves
from refil.storage.run_dir import RunDir

DEFAULT = PlotOptions()


def draw(curves: Curves, options: PlotOptions = DEFAULT) -> Figure:
    """Draw a panel for each environment, with one curve per label."""
    _runs.check_by_task_options("tasks_ranked", options)
    panels = {env: {label: _ranked(runs, label) for label, runs in each.items()} for env, each in _runs.panels(curves).items()}
    counts = [{label: len(rates) for label, rates in ranked.items()} for ranked in panels.values()]
    titles = [f"{env}, {_curves.count_seeds(each.values())}" for env, each in zip(panels, counts, strict=True)]
    texts, order = _curves.legend_labels(counts), list(curves)
    figure, all_axes = _curves.subplots(titles, texts.values(), options, share_y=True)
    for axes, ranked in zip(all_axes, panels.values(), strict=True):
        for label, rates in ranked.items():
            x = np.arange(1, rates.shape[1] + 1)
            _curves.draw_curve(axes, x, 100 * rates, order.index(label), texts[label], (0.0, 100.0))
        axes.set(xlabel="rank of the task (best first)", ylabel="win rate (%)")
    _curves.limit_rates(figure)
    _curves.add_legend(figure, counts)
    return figure


def table(curves: Curves, options: PlotOptions = DEFAULT) -> Iterator[str]:
    """Yield the win rates on the best and the median task, and the number of tasks above half of the best."""
    _runs.check_by_task_options("tasks_ranked", options)
    yield "| win rate, mean over seeds | on the best task | on the middle one | tasks with at least half of the best |" + (
        " seeds | episodes per seed and task |"
    )
    yield "|---|---:|---:|---:|---:|---:|"
    envs = _runs.panels(curves)
    for env, members in envs.items():
        for label, runs in members.items():
            rates = _ranked(runs, label)
            mean = rates.mean(axis=0)
            count = f"{(mean >= mean[0] / 2).sum()} of {len(mean)}"
            name = label if len(envs) == 1 else f"{label} on {env}"
            cells = (f"{mean[0]:.0%}", f"{mean[len(mean) // 2]:.0%}", count, str(len(rates)), _runs.task_episodes(runs))
            yield f"| {name} | {' | '.join(cells)} |"


def _ranked(runs: Sequence[RunDir], label: str) -> np.ndarray:
    # One order for all seeds: ranking each seed by itself would turn noise into a slope.
    rates = _runs.by_task(runs, label)
    return rates[:, np.argsort(-rates.mean(axis=0), kind="stable")]
