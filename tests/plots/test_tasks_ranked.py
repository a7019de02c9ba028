"""Tasks ranked, from shares worked by hand."""

import numpy as np
import pytest

from refil import runs
from refil.plots import tasks_ranked
from refil.settings import Refused
from tests.training import small


def test_each_seed_ranks_its_own_tasks(tmp_path):
    run = runs.create(tmp_path / "run", small())
    run.keep_by_task(10, {"2s": [5, 10], "3s": [9, 0], "4s": [1, 2]})
    (axes,) = tasks_ranked.draw([run], ["ours"]).axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [(0.9 + 1.0) / 2, (0.5 + 0.2) / 2, (0.1 + 0.0) / 2])
    assert axes.lines[0].get_label() == "ours (2 seeds)"


def test_a_run_whose_tasks_were_not_played_is_refused(tmp_path):
    with pytest.raises(Refused, match="--by-task"):
        tasks_ranked.draw([runs.create(tmp_path / "run", small())], ["ours"])
