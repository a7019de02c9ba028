"""The table of variants, from made-up metrics."""

from refil import experiments
from refil.experiments import _variants
from refil.experiments._variants import Variant
from tests.plots.made_up import constant

GROUPS = {
    "joint value (QMIX)": {"VDN": Variant({"mixer": "vdn"})},
    "epochs (4)": {"2 epochs": Variant(train={"epochs": 2}), "8 epochs": Variant(train={"epochs": 8})},
}


def test_the_default_comes_first():
    assert list(_variants.by_name(GROUPS)) == ["default", "VDN", "2 epochs", "8 epochs"]


def test_a_variant_replaces_options_of_the_experiment():
    made = _variants.run(Variant({"memory": 32}, {"steps": 500}), "refil_pqn", "3m", steps=1000, seeds=2)
    assert (made.method.options.memory, made.train.steps, made.train.seeds) == (32, 500, 2)


def test_the_table_has_differences_from_the_default_and_skips_what_is_missing(tmp_path):
    rates = {"default on 3-8sz": [0.8, 0.9], "VDN on 3-8sz": [0.5, 0.8], "VDN on 3-8MMM": [0.4, 0.6]}
    config = _variants.run(Variant(), "refil_pqn", "3m", steps=1000)
    done = {name: constant(tmp_path / experiments.folder_name(name), values, config) for name, values in rates.items()}
    rows = list(_variants.table(GROUPS, ("3-8sz", "3-8MMM"), done))
    assert rows[0] == "| option (default) | value | 3-8sz | difference | 3-8MMM | difference |"
    assert rows[2:] == [
        "|  | default | 85% (80%, 90%) |  |  |  |",
        "| joint value (QMIX) | VDN | 65% (50%, 80%) | -20 | 50% (40%, 60%) |  |",
        "",
        rows[-1],
    ]
