"""Performance profiles, from win rates worked out by hand."""

import numpy as np
import pytest

from refil.errors import RefilError
from refil.plots import PlotOptions, task_profiles
from refil.storage import run_dir
from tests.tiny_runs import small


@pytest.fixture
def run(tmp_path):
    made = run_dir.create(tmp_path / "run", small())
    made.write_by_task(10, {"2s": [5, 10], "3s": [9, 0], "4s": [1, 2], "5s": [0, 8]})
    return made


def test_a_profile_falls_with_the_threshold(run):
    figure = task_profiles.draw({"ours": [run]})
    (axes,) = figure.axes
    curve = dict(zip(axes.lines[0].get_xdata().round().tolist(), axes.lines[0].get_ydata().tolist(), strict=True))
    assert (curve[0], curve[50], curve[95], curve[100]) == (75, 37.5, 12.5, 0)
    np.testing.assert_allclose(axes.collections[0].get_datalim(axes.transData).intervaly, [0, 75])
    assert axes.get_title() == "group_matching, 2 seeds"


def test_the_table_states_seeds_and_episodes(run):
    head, _, row = task_profiles.table({"ours": [run]})
    assert head.startswith("| fraction of tasks won | more than 0% | more than 25% |")
    cells = "75% (75% to 75%) | 50% (50% to 50%) | 38% (25% to 50%) | 38% (25% to 50%) | 12% (0% to 25%)"
    assert row == f"| ours | {cells} | min to max of 2 seeds | 10 |"


def test_other_metrics_are_refused(run):
    with pytest.raises(RefilError, match=r"figure task_profiles draws win rates of by_task.json, without the options metric"):
        task_profiles.draw({"ours": [run]}, PlotOptions(metric="loss"))
