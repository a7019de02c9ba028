"""`refil plot`."""

import json
import shutil
import sys

import pytest

from tests.plots.made_up import constant
from tests.tiny_runs import small


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_several_runs_are_drawn(refil, run, tmp_path, suffix):
    out = tmp_path / f"curves.{suffix}"
    printed, _, code = refil("plot", str(run.path), str(run.path), "--labels", "one", "two", "--out", str(out))
    assert code == 0
    assert "final win rate (mean over the last 10 % of each seed's steps)" in printed.splitlines()[0]
    assert [line.split(" |")[0] for line in printed.splitlines()[2:]] == ["| one", "| two", str(out)]
    assert out.stat().st_size > 1000


def test_curves_are_labeled_as_in_the_paper(refil, run, tmp_path):
    printed, _, code = refil("plot", str(run.path), "--out", str(tmp_path / "x.png"))
    assert (code, printed.splitlines()[2].split(" |")[0]) == (0, "| REFIL")


def test_runs_of_different_environments_need_no_other_labels(refil, tmp_path):
    for cells in (3, 4):
        constant(tmp_path / str(cells), [0.5], small().with_options({"cells": cells}))
    printed, _, code = refil("plot", str(tmp_path / "3"), str(tmp_path / "4"), "--out", str(tmp_path / "x.svg"))
    assert code == 0
    rows = [line.split(" |")[0] for line in printed.splitlines()[2:4]]
    assert rows == ["| REFIL on group_matching, cells 3", "| REFIL on group_matching, cells 4"]


def test_files_that_a_run_names_are_not_executed(refil, tmp_path):
    run = constant(tmp_path / "run", [0.5])
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    config = (run.path / "config.json").read_text().replace('"refil"', json.dumps(str(tmp_path / "mine.py")))
    (run.path / "config.json").write_text(config)
    printed, _, code = refil("plot", str(run.path), "--out", str(tmp_path / "x.png"))
    assert (code, printed.splitlines()[2].split(" |")[0]) == (0, "| mine")
    assert not (tmp_path / "executed").exists()


def test_metric_title_size_and_smoothing_reach_the_figure(refil, run, tmp_path):
    mine = tmp_path / "mine.py"
    show = "    return [str(options)]\n"
    drawing = "from matplotlib.figure import Figure\ndef draw(curves, options): return Figure()\n"
    mine.write_text(drawing + "def table(curves, options):\n" + show)
    words = ["--metric", "loss", "--title", "Ours", "--size", "5", "3", "--smooth", "4"]
    printed, _, code = refil("plot", str(run.path), *words, "--figure", str(mine), "--out", str(tmp_path / "x.png"))
    assert code == 0
    assert printed.startswith(
        "PlotOptions(metric='loss', title='Ours', size=(5.0, 3.0), smooth=4, until=None, level=None, statistic='mean')"
    )
    printed, _, code = refil("plot", str(run.path), *words, "--out", str(tmp_path / "x.png"))
    assert code == 0
    assert printed.startswith("| final loss (")


def test_a_level_must_be_finite(refil, run, tmp_path):
    _, error, code = refil("plot", str(run.path), "--level", "nan", "--out", str(tmp_path / "x.png"))
    assert code == 2
    assert "--level must be a finite number, not nan" in error


def test_a_figure_without_options_refuses_them(refil, run, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("def draw(curves): pass\ndef table(curves): pass\n")
    _, error, code = refil("plot", str(run.path), "--figure", str(mine), "--smooth", "2", "--out", str(tmp_path / "x.png"))
    assert code == 2
    assert "--until, --statistic and --level need a figure with options; draw(curves)" in error


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
        (["--metric", "win"], "has no metric 'win'; available: episodes, epsilon, "),
        (["--size", "0", "3"], "--size must be two numbers of inches from 1 to 100, not 0 3"),
        (["--smooth", "0"], "--smooth must be from 1"),
        (["--figure", "learning_curve"], "did you mean 'learning_curves'?"),
    ],
)
def test_bad_arguments_are_refused(refil, run, arguments, words):
    _, error, code = refil("plot", str(run.path), *arguments)
    assert code == 2
    assert words in error


def test_the_table_has_the_statistic_asked_for(refil, tmp_path):
    run = constant(tmp_path / "run", [0.1, 0.2, 0.9])
    printed, _, code = refil("plot", str(run.path), "--statistic", "median", "--out", str(tmp_path / "x.png"))
    head, _, row, _ = printed.splitlines()
    assert code == 0
    assert "| median | spread | episodes per seed |" in head
    assert "| 20% | 10% to 90% (min to max of 3 seeds) | 4 |" in row
    _, error, code = refil("plot", str(run.path), "--statistic", "mode", "--out", str(tmp_path / "x.png"))
    assert code == 2
    assert "median" in error


def test_evaluations_are_exported(refil, tmp_path):
    run, out = constant(tmp_path / "run", [0.5]), tmp_path / "evaluations.json"
    printed, _, code = refil("plot", str(run.path), "--out", str(tmp_path / "x.png"), "--export", str(out))
    assert (code, printed.splitlines()[-1]) == (0, str(out))
    assert json.loads(out.read_text())["refil"]["group_matching"]["REFIL"]["run_0"]["step_100"]["win_rate"] == [0.5]
    _, error, code = refil("plot", str(run.path), "--out", str(tmp_path / "x.png"), "--export", str(tmp_path / "x.csv"))
    assert (code, "x.csv should end in .json" in error) == (2, True)
