"""The search for settings of on-policy REFIL at the paper's number of steps."""

from refil.experiments import on_policy_ten_million
from refil.experiments.figure_4 import TASK_SETS
from refil.experiments.on_policy_ten_million import VARIANTS
from tests.plots.made_up import constant


def updates_per_step(config):
    algorithm = config.algorithm
    return algorithm.epochs * algorithm.minibatches / (config.train.envs * algorithm.rollout)


def test_all_runs_have_schedules_of_10_million_steps_and_those_on_one_set_come_first():
    runs = on_policy_ten_million.runs()
    assert {(made.train.steps, made.train.seeds) for made in runs.values()} == {(10_000_000, 3)}
    assert [made.env.name for made in runs.values()] == [env for env in TASK_SETS for _ in VARIANTS]
    assert len({repr(made) for made in runs.values()}) == len(runs)


def test_variants_make_as_many_updates_as_their_names_say():
    runs = on_policy_ten_million.runs()
    found = {
        name: updates_per_step(runs[f"{name} on 3-8sz"]) for name in ("default", "4 times the updates", "8 times the updates")
    }
    assert found == {"default": 1 / 512, "4 times the updates": 4 / 512, "8 times the updates": 8 / 512}


def test_the_report_has_a_row_for_every_variant_that_has_been_run(tmp_path):
    config = on_policy_ten_million.runs()["shared targets on 3-8sz"]
    rows = on_policy_ten_million.report(
        {"shared targets on 3-8sz": constant(tmp_path / "shared", [0.7, 0.8], config)}, tmp_path
    )
    assert (
        "| actions aimed at entities (an output per tag) | shared targets | 75% (70%, 80%) |  |  |  |  |  |" in rows.read_text()
    )
