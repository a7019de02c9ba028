"""The StarCraft figure, from made-up metrics."""

import pytest

from refil import experiments, methods
from refil.errors import RefilError
from refil.experiments import figure_4
from tests.plots.made_up import constant


def some_runs(path, names, rates=(0.5,)):
    """Create runs of some methods on all task sets."""
    labels = [figure_4.label(method, env) for method in names for env in figure_4.TASK_SETS]
    return {label: constant(path / experiments.folder_name(label), rates, figure_4.runs()[label]) for label in labels}


def test_twelve_methods_run_on_three_task_sets():
    runs = figure_4.runs().values()
    expected = {(method, env) for method in (*figure_4.ABLATIONS, *figure_4.BASELINES) for env in figure_4.TASK_SETS}
    assert {(made.method.name, made.env.name) for made in runs} == expected
    assert len(expected) == 36
    assert {(made.train.steps, made.train.seeds, made.algorithm.batch) for made in runs} == {(3_000_000, 3, 32)}


def test_panels_have_the_curves_that_exist_and_name_the_others(tmp_path):
    done = some_runs(tmp_path, ("refil", "roma"))
    figure = figure_4.draw(figure_4.curves(done))
    assert [axes.get_title() for axes in figure.axes[:2]] == ["3-8sz, ablations", "3-8csz, ablations"]
    upper, lower = ([text.get_text() for text in figure.axes[n].get_legend().get_texts()] for n in (0, 3))
    assert upper[0] == lower[0] == "REFIL (1 seed, 0.0001M steps)"
    assert upper[1:] == [f"{methods.label(name)}: not run yet" for name in figure_4.ABLATIONS[1:]]
    assert [text for text in lower if "not run" not in text] == [upper[0], "ROMA (Attention) (1 seed, 0.0001M steps)"]


def test_the_table_has_a_row_per_run_and_one_over_all_sets(tmp_path):
    done = some_runs(tmp_path, ("refil",))
    assert figure_4.report(done, tmp_path).exists()
    rows = [row.partition(" |")[0].removeprefix("| ") for row in (tmp_path / "figure_4.md").read_text().splitlines()[2:]]
    assert rows == [*done, "REFIL, mean over all 3 environments"]


def test_folders_of_more_seeds_join_the_curve(tmp_path):
    done = some_runs(tmp_path, ("refil",))
    first = done["REFIL on 3-8sz"]
    more = tmp_path / f"{first.path.name}_seeds_1_to_2"
    constant(more, [0.5, 0.5], first.config)
    with pytest.raises(RefilError, match="both have seed 0"):
        figure_4.curves(done)
    more.joinpath("metrics.jsonl").write_text("".join(f'{{"seed": {n}, "env_steps": 100, "win_rate": 0.2}}\n' for n in (1, 2)))
    assert [run.path for run in figure_4.curves(done)["REFIL"]["3-8sz"]] == [first.path, more]


def test_the_row_of_baselines_appears_with_the_first_of_them(tmp_path):
    assert len(figure_4.draw(figure_4.curves(some_runs(tmp_path, ("refil",)))).axes) == 3
