"""`refil report`."""

import pytest

from tests.plots.made_up import constant
from tests.tiny_runs import small

EXPERIMENT = """
from refil.training import config

def runs():
    return {name: config.default("group_matching", "refil") for name in ("One", "Two")}

def report(done, out):
    path = out / "labels.txt"
    path.write_text(",".join(done))
    return path
"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(EXPERIMENT)
    return str(path)


def test_what_exists_is_drawn_and_what_is_missing_is_listed_with_its_command(refil, tmp_path, mine):
    constant(tmp_path / "out" / "two", [0.5], small(seeds=2, envs=4, steps=300))
    printed, _, code = refil("report", mine, "--out", str(tmp_path / "out"))
    assert code == 0
    assert (tmp_path / "out" / "labels.txt").read_text() == "Two"
    assert "1 of 2 runs are missing; with the options of Two:" in printed
    command = f"refil sweep {mine} --only One --seeds 2 --steps 300 --envs 4 --out {tmp_path / 'out'}"
    assert printed.splitlines()[-1].strip() == command


def test_a_folder_without_runs_is_refused(refil, tmp_path, mine):
    _, error, code = refil("report", mine, "--out", str(tmp_path / "none"))
    assert code == 2
    assert "none has no run of" in error
    assert not (tmp_path / "none").exists()


def test_a_figure_without_runs_is_drawn(refil, tmp_path):
    printed, _, code = refil("report", "figure_3a", "--out", str(tmp_path))
    assert (code, printed.strip()) == (0, str(tmp_path / "figure_3a.png"))
