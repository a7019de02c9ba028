"""Figures redrawn from the published results."""

from pathlib import Path

import pytest

from refil import experiments, plugins
from tests.slow import all_but

RESULTS = Path(__file__).parent.parent.parent / "results"
PUBLISHED = {
    "figure_3b": RESULTS / "group_matching" / "figure_3b",
    "figure_4": RESULTS / "starcraft" / "figure_4",
    "figure_5_lambda": RESULTS / "starcraft" / "figure_4",
    "ten_million": RESULTS / "starcraft" / "ten_million",
}


@pytest.mark.parametrize("name", all_but(("figure_3b",), PUBLISHED))
def test_a_published_figure_can_be_redrawn(name, tmp_path):
    experiment = plugins.load("refil.experiments", name)
    done = experiments.find_runs(PUBLISHED[name], list(experiment.runs()))
    assert done
    assert experiment.report(done, tmp_path).read_bytes().startswith(b"\x89PNG")
    table = PUBLISHED[name] / f"{name}.md"
    if table.exists():
        assert (tmp_path / table.name).read_text() == table.read_text()
