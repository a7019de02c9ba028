"""Learning curves, from metrics worked out by hand."""

import numpy as np
import pytest

from refil.errors import RefilError
from refil.plots import PlotOptions, _curves, learning_curves
from tests.plots.made_up import constant, made_up
from tests.tiny_runs import small


def legend_texts(figure) -> list[str]:
    (legend,) = figure.legends
    assert all(axes.get_legend() is None for axes in figure.axes)
    return [text.get_text() for text in legend.get_texts()]


def test_seeds_are_interpolated_on_a_common_grid_that_all_have_reached(tmp_path):
    run = made_up(tmp_path / "run", [(0, 0, 0.0), (0, 100, 1.0), (1, 0, 0.5), (1, 200, 0.5)])
    run.append_metrics([{"seed": 0, "env_steps": 50, "loss": 1.0}])  # a line without an evaluation
    steps, curves = learning_curves.seed_curves([run])
    assert steps[-1] == 100
    np.testing.assert_allclose(curves[0], steps / 100)
    np.testing.assert_allclose(curves[1], 0.5)


def test_values_are_smoothed_over_the_latest_evaluations(tmp_path):
    run = made_up(tmp_path / "run", [(0, 0, 0.0), (0, 100, 0.6), (0, 200, 0.9)])
    steps, (curve,) = learning_curves.seed_curves([run], PlotOptions(smooth=2))
    np.testing.assert_allclose(np.interp([0, 100, 200], steps, curve), [0.0, 0.3, 0.75])


def test_the_figure_has_a_curve_per_label_and_a_band_for_several_seeds(tmp_path):
    several, single = constant(tmp_path / "a", [0.5, 0.75]), constant(tmp_path / "b", [0.25])
    figure = learning_curves.draw({"one": [several], "two": [single]})
    (axes,) = figure.axes
    assert legend_texts(figure) == ["one (2 seeds)", "two (1 seed)"]
    assert [(line.get_color(), line.get_linestyle()) for line in axes.lines] == list(
        zip(_curves.COLORS[:2], _curves.STYLES[:2], strict=True)
    )
    np.testing.assert_allclose([line.get_ydata()[-1] for line in axes.lines], [62.5, 25])
    (band,) = axes.collections
    np.testing.assert_allclose(band.get_datalim(axes.transData).intervaly, [50, 75])
    assert axes.get_title() == "group_matching, 1 to 2 seeds"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("environment steps", "win rate (%)")


def test_five_seeds_have_the_band_of_a_t_interval(tmp_path):
    (axes,) = learning_curves.draw({"ours": [constant(tmp_path / "run", [0.1, 0.2, 0.3, 0.4, 0.5])]}).axes
    np.testing.assert_allclose(axes.collections[0].get_datalim(axes.transData).intervaly, [30 - 19.63, 30 + 19.63], atol=0.01)


def test_runs_with_the_same_label_form_one_curve(tmp_path):
    first, second = (made_up(tmp_path / str(rate), [(0, 0, rate), (0, 100 + int(rate), rate)]) for rate in (0.0, 1.0))
    figure = learning_curves.draw({"both": [first, second]})
    (axes,) = figure.axes
    assert legend_texts(figure) == ["both"]
    assert axes.get_title() == "group_matching, 2 seeds"
    assert axes.lines[0].get_xdata()[-1] == 100
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 50)


def test_environments_have_their_own_panels_and_share_a_legend(tmp_path):
    low, high = constant(tmp_path / "low", [0.25]), constant(tmp_path / "high", [0.75])
    other = constant(tmp_path / "other", [0.5], small().with_options({"cells": 5}))
    figure = learning_curves.draw({"one": [low], "two": [high, other]})
    assert [axes.get_title() for axes in figure.axes] == ["group_matching, cells 3, 1 seed", "group_matching, cells 5, 1 seed"]
    assert [[line.get_ydata()[-1] for line in axes.lines] for axes in figure.axes] == [[25, 75], [50]]
    assert figure.axes[0].lines[1].get_color() == figure.axes[1].lines[0].get_color()
    assert legend_texts(figure) == ["one", "two"]


def test_another_metric_has_its_own_axis(tmp_path):
    run = made_up(tmp_path / "run", [(0, 0, 5.0), (0, 2_000_000, 7.0)], metric="length_mean")
    (axes,) = learning_curves.draw({"ours": [run]}, PlotOptions(metric="length_mean")).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("environment steps (million)", "length of episodes (steps)")
    np.testing.assert_allclose(axes.lines[0].get_ydata()[[0, -1]], [5, 7])
    *_, row = learning_curves.table({"ours": [run]}, PlotOptions(metric="length_mean"))
    assert row == "| ours | 2 | 7 | 7 |  | 4 | 6 |"


def test_the_table_has_the_final_win_rate_of_every_seed(tmp_path):
    ends = ((0, 0.25), (1, 0.75))
    first, second = (made_up(tmp_path / str(s), [(s, 10**5 * n, end * (n >= 9)) for n in range(11)]) for s, end in ends)
    head, _, row = learning_curves.table({"ours": [first, second]})
    assert head.startswith("| final win rate (mean over the last 10 % of each seed's steps) | million steps | by seed | mean |")
    assert row == "| ours | 1 | 25%, 75% | 50% | 25% to 75% (min to max of 2 seeds) | 8 | 8% |"


@pytest.mark.parametrize(("seeds", "cell"), [(10, ", ".join(f"{n}%" for n in range(10))), (11, "0% to 10%")])
def test_the_table_lists_up_to_ten_seeds(tmp_path, seeds, cell):
    *_, row = learning_curves.table({"ours": [constant(tmp_path / "run", [n / 100 for n in range(seeds)])]})
    assert row.split(" | ")[2] == cell


def test_short_runs_are_counted_in_steps(tmp_path):
    short = made_up(tmp_path / "short", [(0, 41 * n, 0.5) for n in range(11)])
    short.append_metrics([{"seed": 0, "env_steps": 41 * n, "seconds": 2.0 * n} for n in range(11)])
    long = made_up(tmp_path / "long", [(0, 10**6 * n, 0.5) for n in range(3)], small().with_options({"cells": 5}))
    head, _, row = learning_curves.table({"ours": [short]}, PlotOptions(level=0.5))
    assert "| steps | by seed |" in head
    assert "from steps |" in head
    assert row.startswith("| ours | 410 | 50% |")
    axes = learning_curves.draw({"ours": [short, long]}).axes
    assert [each.get_xlabel() for each in axes] == ["environment steps", "environment steps (million)"]
    assert [each.lines[0].get_xdata()[-1] for each in axes] == [410, 2]


def test_rows_of_several_environments_name_theirs(tmp_path):
    runs = [constant(tmp_path / str(cells), [0.5], small().with_options({"cells": cells})) for cells in (3, 5)]
    rows = list(learning_curves.table({"ours": runs}))[2:]
    expected = [*(f"| ours on group_matching, cells {cells}" for cells in (3, 5)), "| ours, mean over all 2 environments"]
    assert [row.split(" | ")[0] for row in rows] == expected


def test_runs_of_different_length_can_be_compared_at_the_same_step(tmp_path):
    run = made_up(tmp_path / "run", [(0, 10**5 * n, n / 10) for n in range(11)])
    *_, row = learning_curves.table({"ours": [run]}, PlotOptions(until=500_000))
    assert row == "| ours | 0.5 | 50% | 50% |  | 4 | 25% |"
    (axes,) = learning_curves.draw({"ours": [run]}, PlotOptions(until=500_000)).axes
    assert axes.lines[0].get_xdata()[-1] == 500
    late = made_up(tmp_path / "late", [(0, 100, 0.5)])
    with pytest.raises(RefilError, match="until 50 is before the first value of win_rate"):
        list(learning_curves.table({"ours": [late]}, PlotOptions(until=50)))


def test_the_table_says_when_each_seed_holds_a_level(tmp_path):
    run = made_up(tmp_path / "run", [(0, 10**6 * n, 0.8 * (n >= 2)) for n in range(9)])
    run.append_metrics([{"seed": 1, "env_steps": 10**6 * n, "win_rate": 0.8 * (n % 5 > 0)} for n in range(9)])
    run.append_metrics([{"seed": seed, "env_steps": 10**6 * n, "seconds": 10.0 * n} for seed in (0, 1) for n in range(9)])
    head, rule, row = learning_curves.table({"ours": [run]}, PlotOptions(level=0.75))
    assert "| 5 evaluations in a row at 75% or more: from million steps | seconds, compilation included |" in head
    assert head.count("|") == rule.count("|") == row.count("|")
    assert row.endswith("| 2.0, never | 20, never |")
    short = made_up(tmp_path / "short", [(0, 20_000 * n, 0.8) for n in range(1, 9)])
    short.append_metrics([{"seed": 0, "env_steps": 20_000 * n, "seconds": 1.5 * n} for n in range(1, 9)])
    assert list(learning_curves.table({"ours": [short]}, PlotOptions(level=0.75)))[2].endswith("| 0.02 | 2 |")
    (axes,) = learning_curves.draw({"ours": [run]}, PlotOptions(level=0.75)).axes
    assert 75 in axes.lines[-1].get_ydata()
