"""Parts that figures share: colors and line styles, panels, a band over seeds, one legend."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from refil import stats
from refil.plots import PlotOptions

# Colors of Okabe and Ito, which color-blind readers can tell apart, without their yellow, which is too light for lines.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")  # 4 styles and 7 colors give 28 different curves
PANEL, SINGLE = (4.4, 3.3), (6.4, 3.5)  # width and height in inches of one of several panels, and of the only one
MAX_COLUMNS = 3  # panels side by side
LETTER, LINE, HANDLE = 0.072, 0.22, 0.7  # inches of the legend: a letter, a line of text, and the drawn line with its margins


def subplots(titles: Sequence[str], labels: Iterable[str], options: PlotOptions, share_y: bool) -> tuple[Figure, list[Axes]]:
    """Create a figure with a panel for each title, and with room for a legend of the given labels."""
    columns = len(titles) if len(titles) <= MAX_COLUMNS else min(math.isqrt(len(titles) - 1) + 1, MAX_COLUMNS)
    rows = -(-len(titles) // columns)
    width, height = SINGLE if len(titles) == 1 else (PANEL[0] * columns, PANEL[1] * rows)
    size = options.size or (width, height + LINE * (1 + _legend_shape(list(labels), width)[0]))
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharey=share_y).flatten().tolist()
    for axes in panels[len(titles) :]:
        axes.remove()
    for axes, title in zip(panels, titles, strict=False):
        axes.set_title(title)
        axes.grid(alpha=0.3)
        axes.tick_params(labelleft=True)
    if options.title is not None:
        figure.suptitle(options.title)
    return figure, panels[: len(titles)]


def draw_curve(axes: Axes, x: np.ndarray, seeds: np.ndarray, number: int, label: str, bounds: tuple[float, float]) -> None:
    """Draw the mean over seeds, and a band for several seeds; `number` chooses color and line style."""
    color, style = COLORS[number % len(COLORS)], STYLES[number % len(STYLES)]
    axes.plot(x, seeds.mean(axis=0), label=label, color=color, linestyle=style, linewidth=1.6)
    if (band := stats.spread(seeds, bounds)) is not None:
        axes.fill_between(x, band.low, band.high, color=color, alpha=0.15, linewidth=0)


def count_seeds(counts: Iterable[int]) -> str:
    """Return numbers of seeds in words, as a range if they differ."""
    low, high = min(counts := list(counts)), max(counts)
    return f"{low} to {high} seeds" if low < high else f"{low} seed{'s' if low > 1 else ''}"


def legend_labels(panels: Sequence[dict[str, int]]) -> dict[str, str]:
    """Return the text of each label in the legend, with its numbers of seeds if they differ within a panel."""
    counts: dict[str, list[int]] = {}
    for label, count in (pair for panel in panels for pair in panel.items()):
        counts.setdefault(label, []).append(count)
    differ = any(len(set(panel.values())) > 1 for panel in panels)
    return {label: f"{label} ({count_seeds(each)})" if differ else label for label, each in counts.items()}


def limit_rates(figure: Figure) -> None:
    """Show win rates from 0 to the highest one, in percent; all panels share that axis."""
    top = max(axes.get_ylim()[1] for axes in figure.axes)
    figure.axes[0].set_ylim(-2, min(top, 102))


def add_legend(figure: Figure, panels: Sequence[dict[str, int]]) -> None:
    """Add one legend for all panels, below them, which says what bands are."""
    handles = {}
    for axes in figure.axes:
        handles |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=_legend_shape(list(handles), figure.get_figwidth())[1],
        frameon=False,
        title=_describe_bands({count for panel in panels for count in panel.values()}),
        title_fontsize="small",
        handlelength=3.0,
    )


def _legend_shape(labels: list[str], width: float) -> tuple[int, int]:
    """Return the rows and columns of a legend that fits into a width; columns are filled one after the other."""
    rows = next((rows for rows in range(1, len(labels)) if _legend_width(labels, rows) <= width), len(labels))
    return rows, -(-len(labels) // rows)


def _legend_width(labels: list[str], rows: int) -> float:
    columns = [labels[start : start + rows] for start in range(0, len(labels), rows)]
    return sum(HANDLE + LETTER * max(map(len, column)) for column in columns)


def _describe_bands(counts: set[int]) -> str | None:
    few, many = any(1 < count < stats.MIN_SEEDS for count in counts), any(count >= stats.MIN_SEEDS for count in counts)
    if few and many:
        return f"line: mean over seeds; band: 95 % t interval, or min to max for fewer than {stats.MIN_SEEDS} seeds"
    if few or many:
        return f"line: mean over seeds; band: {'min to max' if few else '95 % t interval'}"
    return None
