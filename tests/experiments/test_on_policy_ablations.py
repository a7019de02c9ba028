"""The ablations of on-policy REFIL: their runs, and their table from made-up metrics."""

from refil import experiments
from refil.experiments import on_policy_ablations
from refil.experiments.on_policy_ablations import DEFAULT, VARIANTS, label
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


def test_the_table_has_differences_from_the_default_and_skips_what_is_missing(tmp_path):
    rates = {"default on 3-8sz": [0.8, 0.9], "VDN on 3-8sz": [0.5, 0.8], "VDN on 3-8MMM": [0.4, 0.6]}
    runs = on_policy_ablations.runs()
    done = {name: constant(tmp_path / experiments.folder_name(name), values, runs[name]) for name, values in rates.items()}
    rows = on_policy_ablations.report(done, tmp_path).read_text().splitlines()
    assert rows[0] == "| ingredient (default) | value | 3-8sz | difference | 3-8MMM | difference |"
    assert rows[2:4] == [
        "|  | default | 85% (80%, 90%) |  |  |  |",
        "| joint value (QMIX) | VDN | 65% (50%, 80%) | -20 | 50% (40%, 60%) |  |",
    ]
    assert rows[4] == ""
