"""Figures, one file each; the name of the file is the name of the figure.

A figure defines `draw(curves, options) -> Figure` and `table(curves, options)`, which yields the same as lines of Markdown.
`curves` maps each label to the runs (`RunDir`) whose seeds form one curve; `options` is a `PlotOptions`. A figure that has no
use for options may leave out that argument.
"""

from dataclasses import dataclass
from typing import Literal

REQUIRED = ("draw", "table")  # names that a figure file must define
KIND = "figure"


@dataclass(frozen=True)
class PlotOptions:
    """Options of a figure: the metric, the statistic and the layout."""

    metric: str = "win_rate"  # name of a number in metrics.jsonl
    title: str | None = None  # title of the whole figure; panels are titled with environment and seeds
    size: tuple[float, float] | None = None  # width and height in inches
    smooth: int = 1  # number of evaluations to average over, the latest and those before it
    until: int | None = None  # steps of each run to use, from its start
    level: float | None = None  # value to mark; the table says when each seed reaches it and stays there
    statistic: Literal["mean", "median", "iqm"] = "mean"  # statistic of the final values in the table
