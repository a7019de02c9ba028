"""The StarCraft figure, from metrics made up."""

from refil import runs
from refil.experiments import figure_4
from refil.plots import learning_curves
from tests.training import small


def test_four_methods_are_planned_on_three_sets():
    planned = figure_4.planned()
    assert {(made.method, made.env) for made in planned.values()} == {(m, e) for m in figure_4.ABLATIONS for e in figure_4.SETS}
    assert {(made.options.steps, made.options.seeds, made.options.batch) for made in planned.values()} == {(3_000_000, 3, 32)}


def test_every_set_has_a_panel_with_every_method(tmp_path):
    done = {}
    for number, label in enumerate(figure_4.planned()):
        done[label] = runs.create(tmp_path / str(number), small())
        done[label].append([{"seed": 0, "env_steps": steps, "win_rate": number / 20} for steps in (0, 100)])
    assert figure_4.conclude(done, tmp_path).stat().st_size > 10_000
    panels = {env: {"REFIL": done[f"REFIL on {env}"], "QMIX": done[f"QMIX (Attention) on {env}"]} for env in figure_4.SETS}
    axes = learning_curves.draw_beside(panels).axes
    assert [each.get_title() for each in axes] == list(figure_4.SETS)
    assert [each.lines[1].get_ydata()[-1] for each in axes] == [0.05, 0.25, 0.45]
