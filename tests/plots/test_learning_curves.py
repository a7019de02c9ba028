"""Learning curves, from metrics worked out by hand."""

import numpy as np
import pytest

from refil.errors import RefilError
from refil.plots import learning_curves
from refil.storage import run_dir
from tests.tiny_runs import small


def made_up(path, points) -> run_dir.RunDir:
    run = run_dir.create(path, small())
    run.append_metrics([{"seed": seed, "env_steps": steps, "win_rate": rate} for seed, steps, rate in points])
    return run


def test_seeds_are_interpolated_on_a_common_grid_that_all_have_reached(tmp_path):
    run = made_up(tmp_path / "run", [(0, 0, 0.0), (0, 100, 1.0), (1, 0, 0.5), (1, 200, 0.5)])
    run.append_metrics([{"seed": 0, "env_steps": 50, "loss": 1.0}])  # a line without an evaluation
    steps, curves = learning_curves.seed_curves([run])
    assert steps[-1] == 100
    np.testing.assert_allclose(curves[0], steps / 100)
    np.testing.assert_allclose(curves[1], 0.5)


def test_the_figure_has_a_curve_per_label_and_a_band_for_several_seeds(tmp_path):
    several = made_up(tmp_path / "a", [(0, 0, 0.0), (0, 100, 1.0), (1, 0, 0.5), (1, 100, 0.5)])
    single = made_up(tmp_path / "b", [(0, 0, 0.0), (0, 100, 1.0)])
    (axes,) = learning_curves.draw({"one": [several], "two": [single]}).axes
    assert [line.get_label() for line in axes.lines] == ["one (2 seeds)", "two (1 seed)"]
    assert len(axes.collections) == 1
    np.testing.assert_allclose(axes.lines[0].get_ydata()[-1], 0.75)


def test_runs_with_the_same_label_form_one_curve(tmp_path):
    first, second = (made_up(tmp_path / str(rate), [(0, 0, rate), (0, 100 + int(rate), rate)]) for rate in (0.0, 1.0))
    (axes,) = learning_curves.draw({"both": [first, second]}).axes
    assert [line.get_label() for line in axes.lines] == ["both (2 seeds)"]
    assert axes.lines[0].get_xdata()[-1] == 100
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 0.5)


def test_panels_have_their_own_curves(tmp_path):
    low, high = (made_up(tmp_path / str(rate), [(0, 0, rate), (0, 100, rate)]) for rate in (0.25, 0.75))
    axes = learning_curves.draw_panels({"a": {"one": [low]}, "b": {"one": [high], "two": [low]}}).axes
    assert [each.get_title() for each in axes] == ["a", "b"]
    assert [[line.get_ydata()[-1] for line in each.lines] for each in axes] == [[0.25], [0.75, 0.25]]


def test_a_run_without_evaluations_is_refused(tmp_path):
    with pytest.raises(RefilError, match="no evaluation yet"):
        learning_curves.seed_curves([made_up(tmp_path / "run", [])])


def test_the_table_has_the_win_rate_over_the_last_tenth(tmp_path):
    ends = ((0, 0.25), (1, 0.75))
    first, second = (made_up(tmp_path / str(s), [(s, 10**5 * n, end * (n >= 9)) for n in range(11)]) for s, end in ends)
    assert list(learning_curves.table({"ours": [first, second]}))[-1] == "| ours | 1 | 25%, 75% | 50% | 25% to 75% | 8% |"
