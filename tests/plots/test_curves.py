"""Colors, line styles, panels and legends of figures."""

import numpy as np
import pytest

from refil.plots import PlotOptions, _curves


def panels(number: int, **options) -> tuple:
    return _curves.subplots([str(n) for n in range(number)], ["one"], PlotOptions(**options), share_y=True)


def test_28_curves_differ_in_color_or_line_style():
    _, (axes,) = panels(1)
    for number in range(28):
        _curves.draw_curve(axes, np.arange(2), np.zeros((1, 2)), number, str(number), (0.0, 1.0))
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == 28


@pytest.mark.parametrize(("number", "grid"), [(1, (1, 1)), (3, (1, 3)), (4, (2, 2)), (5, (2, 3)), (10, (4, 3))])
def test_panels_fill_a_grid(number, grid):
    figure, axes = panels(number)
    assert len(axes) == len(figure.axes) == number
    assert axes[0].get_gridspec().get_geometry() == grid


def test_the_figure_has_the_title_and_the_size_asked_for():
    figure, _ = panels(2, title="Ours", size=(5.0, 2.0))
    assert figure.get_suptitle() == "Ours"
    assert figure.get_size_inches().tolist() == [5.0, 2.0]


def test_legends_name_seeds_only_where_curves_of_a_panel_differ_in_them():
    assert _curves.legend_labels([{"a": 3, "b": 3}, {"a": 5}]) == {"a": "a", "b": "b"}
    assert _curves.legend_labels([{"a": 1, "b": 3}, {"a": 5}]) == {"a": "a (1 to 5 seeds)", "b": "b (3 seeds)"}


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([3, 4], "line: mean over seeds; band: min to max"),
        ([5, 24], "line: mean over seeds; band: 95 % t interval"),
        ([1, 3, 8], "line: mean over seeds; band: 95 % t interval, or min to max for fewer than 5 seeds"),
        ([1], ""),
    ],
)
def test_the_legend_says_what_bands_are(counts, words):
    figure, (axes,) = panels(1)
    drawn = {str(number): count for number, count in enumerate(counts)}
    for number, (label, count) in enumerate(drawn.items()):
        _curves.draw_curve(axes, np.arange(2), np.zeros((count, 2)), number, label, (0.0, 1.0))
    _curves.add_legend(figure, [drawn])
    (legend,) = figure.legends
    assert legend.get_title().get_text().removeprefix("None") == words
    assert [text.get_text() for text in legend.get_texts()] == list(drawn)


@pytest.mark.parametrize("labels", [["REFIL", "QMIX"], ["x" * 40] * 5, [f"{n} {'y' * n}" for n in range(1, 30)]])
def test_legends_fit_into_the_figure(labels):
    figure, (axes,) = _curves.subplots(["title"], labels, PlotOptions(), share_y=True)
    for number, label in enumerate(labels):
        _curves.draw_curve(axes, np.arange(2), np.zeros((1, 2)), number, f"{label}{' ' * number}", (0.0, 1.0))
    _curves.add_legend(figure, [dict.fromkeys(labels, 1)])
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box, whole = legend.get_window_extent(), figure.bbox
    assert whole.x0 <= box.x0
    assert box.x1 <= whole.x1
    assert box.y0 >= whole.y0
    assert box.y1 < axes.get_window_extent().y0
