"""`refil plot`."""

import shutil
import sys

import pytest


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_several_runs_are_drawn(refil, run, tmp_path, suffix):
    out = tmp_path / f"curves.{suffix}"
    printed, _, code = refil("plot", str(run.path), str(run.path), "--labels", "one", "two", "--out", str(out))
    assert code == 0
    assert [line.split(" |")[0] for line in printed.splitlines()[2:]] == ["| one", "| two", str(out)]
    assert out.stat().st_size > 1000


def test_runs_that_differ_only_in_their_paths_have_different_labels(refil, run, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(run.path, tmp_path / name / "run")
    paths = [str(tmp_path / name / "run") for name in ("one", "two")]
    printed, _, code = refil("plot", *paths, "--out", str(tmp_path / "x.png"))
    assert code == 0
    assert [name in line for name, line in zip(("one", "two"), printed.splitlines()[2:4], strict=True)] == [True, True]


def test_a_run_counts_once_per_label(refil, run, tmp_path):
    twice = [str(run.path), f"{run.path}/../{run.path.name}"]
    _, error, code = refil("plot", *twice, "--labels", "a", "a", "--out", str(tmp_path / "x.png"))
    assert code == 2
    assert "a run is given twice for the label 'a'" in error


def test_a_user_file_can_draw_the_figure(refil, run, tmp_path):
    mine = tmp_path / "mine.py"
    drawing = "from matplotlib.figure import Figure\ndef draw(curves): return Figure()\n"
    mine.write_text(drawing + "def table(curves): return [f'{len(curves)} of mine']")
    printed, _, code = refil("plot", str(run.path), "--figure", str(mine), "--out", str(tmp_path / "x.png"))
    assert (code, printed.splitlines()[0]) == (0, "1 of mine")


@pytest.mark.parametrize("arguments", [["plot"], ["watch", "--png", "x.png"], ["watch", "--gif", "x.gif"]])
def test_without_matplotlib_the_error_says_how_to_install_it(refil, run, monkeypatch, arguments):
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "refil.plots"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    _, error, code = refil(arguments[0], str(run.path), *arguments[1:])
    assert code == 2
    assert "pip install 'refil[plot]'" in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "x.jpeg2"], ".png"),
        (["--labels", "a", "b"], "2 labels for 1 runs"),
        (["--figure", "learning_curve"], "did you mean 'learning_curves'?"),
    ],
)
def test_bad_arguments_are_refused(refil, run, arguments, words):
    _, error, code = refil("plot", str(run.path), *arguments)
    assert code == 2
    assert words in error
