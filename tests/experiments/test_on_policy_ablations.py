"""The ablations of on-policy REFIL."""

from refil.experiments import on_policy_ablations
from refil.experiments._variants import DEFAULT, label
from refil.experiments.on_policy_ablations import VARIANTS
from tests.plots.made_up import constant


def test_every_variant_changes_the_default_by_its_own_options_only():
    runs = on_policy_ablations.runs()
    base = runs[label(DEFAULT, "3-8sz")]
    for name, variant in VARIANTS.items():
        made = runs[label(name, "3-8sz")]
        assert made == base.with_options(method_options=variant.method, **variant.train)
        assert (made == base) == (name == DEFAULT)


def test_all_runs_have_schedules_of_16_million_steps_and_three_seeds():
    runs = on_policy_ablations.runs()
    assert {(made.train.steps, made.train.seeds, made.method.name) for made in runs.values()} == {(16_000_000, 3, "refil_pqn")}
    assert {made.env.name for made in runs.values()} == {"3-8sz", "3-8MMM"}
    assert len(runs) == 2 * len(VARIANTS) == 30


def test_both_sets_of_an_ingredient_come_before_the_next_ingredient():
    assert list(on_policy_ablations.runs())[:4] == [
        "default on 3-8sz",
        "default on 3-8MMM",
        "imagined weight 0 on 3-8sz",
        "imagined weight 0 on 3-8MMM",
    ]


def test_the_report_has_a_row_for_every_variant_that_has_been_run(tmp_path):
    config = on_policy_ablations.runs()["VDN on 3-8MMM"]
    rows = on_policy_ablations.report({"VDN on 3-8MMM": constant(tmp_path / "vdn", [0.4, 0.6], config)}, tmp_path)
    assert "| joint value (QMIX) | VDN |  |  | 50% (40%, 60%) |  |" in rows.read_text().splitlines()
