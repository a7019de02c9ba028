"""The StarCraft figure, from made-up metrics."""

from refil.experiments import figure_4
from refil.storage import run_dir
from refil.training import config
from tests.tiny_runs import small


def test_four_methods_run_on_three_task_sets():
    runs = figure_4.runs().values()
    expected = {(method, env) for method in figure_4.ABLATIONS for env in figure_4.TASK_SETS}
    assert {(made.method.name, made.env.name) for made in runs} == expected
    assert {(made.train.steps, made.train.seeds, made.algorithm.batch) for made in runs} == {(3_000_000, 3, 32)}


def test_every_task_set_has_a_panel_with_every_method(tmp_path):
    done = {label: run_dir.create(tmp_path / str(number), small()) for number, label in enumerate(figure_4.runs())}
    panels = figure_4.panels(done)
    assert list(panels) == list(figure_4.TASK_SETS)
    for env, panel in panels.items():
        assert list(panel) == [config.label(method) for method in figure_4.ABLATIONS]
        assert all(curve == [done[f"{name} on {env}"]] for name, curve in panel.items())
    for run in done.values():
        run.append_metrics([{"seed": 0, "env_steps": steps, "win_rate": 0.5} for steps in (0, 100)])
    assert figure_4.report(done, tmp_path).exists()
    assert (tmp_path / "figure_4.md").read_text().count("| 50% | 50% | 50% to 50% | 50% |") == len(done)
