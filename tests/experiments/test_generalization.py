"""The generalization experiment: its runs, and its table from tiny models."""

import numpy as np

from refil.experiments import generalization
from refil.storage.run_dir import RunDir


def test_all_methods_are_trained_on_the_training_tasks_with_12_tags():
    runs = generalization.runs()
    assert list(runs)[:3] == ["REFIL on 3-8sz", "QMIX (Attention) on 3-8sz", "REFIL (PQN) on 3-8sz"]
    assert {(run.env.options.tasks, run.env.options.tags, run.train.seeds) for run in runs.values()} == {("train", 12, 3)}
    assert [run.train.steps for run in runs.values()] == [10_000_000, 10_000_000, 50_000_000] * 2


def test_every_larger_set_fits_the_networks():
    for run in list(generalization.runs().values())[::3]:
        larger = generalization.transfer.build_env(run, generalization.LARGER[run.env.name])
        assert larger.spec.agents == 12


def test_the_table_has_a_column_for_each_part(monkeypatch, tmp_path):
    class Done(RunDir):
        config = generalization.runs()["REFIL on 3-8sz"]

    asked = []

    def win_rates(run, **other):
        asked.append(other)
        return np.array([0.2, 0.4, 0.6])

    monkeypatch.setattr(generalization, "_win_rates", win_rates)
    table = generalization.report({"REFIL on 3-8sz": Done(tmp_path)}, tmp_path).read_text().splitlines()
    assert asked == [{"tasks": "train"}, {"tasks": "held-out"}, {"name": "9-12sz"}]
    assert table[0] == "| win rate on tasks | train | held-out | 9 to 12 units |"
    assert table[2] == "| REFIL on 3-8sz |" + " 40% (20% to 60%, min to max of 3 seeds) |" * 3
