"""The StarCraft figure, from made-up metrics."""

from refil import methods
from refil.experiments import figure_4
from refil.plots import _runs
from tests.plots.made_up import constant


def test_four_methods_run_on_three_task_sets():
    runs = figure_4.runs().values()
    expected = {(method, env) for method in figure_4.ABLATIONS for env in figure_4.TASK_SETS}
    assert {(made.method.name, made.env.name) for made in runs} == expected
    assert {(made.train.steps, made.train.seeds, made.algorithm.batch) for made in runs} == {(3_000_000, 3, 32)}


def test_every_task_set_has_a_panel_with_every_method(tmp_path):
    runs = figure_4.runs().items()
    done = {label: constant(tmp_path / str(number), [0.5], made) for number, (label, made) in enumerate(runs)}
    panels = _runs.panels(figure_4.curves(done))
    assert list(panels) == list(figure_4.TASK_SETS)
    for env, panel in panels.items():
        assert list(panel) == [methods.label(method) for method in figure_4.ABLATIONS]
        assert all(curve == [done[f"{name} on {env}"]] for name, curve in panel.items())
    assert figure_4.report(done, tmp_path).exists()
    rows = (tmp_path / "figure_4.md").read_text().splitlines()[2:]
    assert {row.partition(" |")[0].removeprefix("| ") for row in rows} == set(done)
    assert all(row.endswith("| 50% | 50% |  | 50% |") for row in rows)
