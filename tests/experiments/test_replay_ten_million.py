"""The search for networks with which REFIL wins more battles at the paper's number of steps."""

from refil.experiments import replay_ten_million
from refil.experiments.figure_4 import TASK_SETS
from refil.experiments.replay_ten_million import VARIANTS
from tests.plots.made_up import constant


def test_runs_differ_from_refil_by_the_options_in_their_names():
    runs = replay_ten_million.runs()
    assert [made.env.name for made in runs.values()] == [env for env in TASK_SETS for _ in VARIANTS]
    assert {(made.train.steps, made.train.seeds, made.method.name) for made in runs.values()} == {(10_000_000, 3, "refil")}
    found = {name: runs[f"{name} on 3-8sz"].method.options for name in VARIANTS}
    assert {name: (options.shared_targets, options.memory) for name, options in found.items()} == {
        "default": (False, 64),
        "shared targets": (True, 64),
        "memory 128": (False, 128),
        "shared targets, memory 128": (True, 128),
    }


def test_the_report_compares_variants_with_the_default(tmp_path):
    runs = replay_ten_million.runs()
    rates = {"default on 3-8sz": [0.5, 0.6], "shared targets on 3-8sz": [0.7, 0.8]}
    done = {label: constant(tmp_path / label, values, runs[label]) for label, values in rates.items()}
    rows = replay_ten_million.report(done, tmp_path).read_text()
    assert "| shared targets | 75% (70%, 80%) | +20 |" in rows
