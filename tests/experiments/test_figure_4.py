"""The StarCraft figure, from metrics made up."""

from refil.experiments import figure_4
from refil.storage import run_dir
from refil.training import config
from tests.tiny_runs import small


def test_four_methods_are_planned_on_three_sets():
    planned = figure_4.planned()
    assert {(made.method, made.env) for made in planned.values()} == {(m, e) for m in figure_4.ABLATIONS for e in figure_4.SETS}
    assert {(made.options.steps, made.options.seeds, made.options.batch) for made in planned.values()} == {(3_000_000, 3, 32)}


def test_every_set_has_a_panel_with_every_method(tmp_path):
    done = {label: run_dir.create(tmp_path / str(number), small()) for number, label in enumerate(figure_4.planned())}
    panels = figure_4.panels(done)
    assert list(panels) == list(figure_4.SETS)
    for env, panel in panels.items():
        assert list(panel) == [config.label(method) for method in figure_4.ABLATIONS]
        assert all(line == [done[f"{name} on {env}"]] for name, line in panel.items())
    for run in done.values():
        run.append([{"seed": 0, "env_steps": steps, "win_rate": 0.5} for steps in (0, 100)])
    assert figure_4.conclude(done, tmp_path).exists()
    assert (tmp_path / "figure_4.md").read_text().count("| 50% | 50% | 50% to 50% | 50% |") == len(done)
