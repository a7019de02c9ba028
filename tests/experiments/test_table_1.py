"""The table of all methods, from short runs."""

import pytest

from refil.experiments import table_1
from refil.storage import run_dir
from refil.training import trainer
from tests.tiny_runs import small


def test_every_method_runs_on_every_task_set():
    runs = table_1.runs()
    assert len(runs) == 36
    assert runs["REFIL on 3-8sz"].train.steps == 100_000
    expected = {(method, env) for method in table_1.METHODS for env in table_1.STEPS}
    assert {(made.method.name, made.env.name) for made in runs.values()} == expected
    assert all(made.algorithm.batch == 32 and made.algorithm.buffer == 5000 for made in runs.values())


def test_a_row_summarizes_the_metrics(tmp_path):
    run = run_dir.create(tmp_path / "run", small())
    learned = {"td_loss": 0.5, "target_variance": 2.0, "peak_bytes": 2_500_000_000}
    run.append_metrics(
        [
            {"seed": 0, "updates": 0, "env_steps": 8, "seconds": 30.0, "peak_bytes": 1_000_000_000, "win_rate": 0.0},
            {"seed": 0, "updates": 100, "env_steps": 1000, "seconds": 40.0} | learned,
            {"seed": 0, "updates": 270, "env_steps": 4500, "seconds": 41.0, "win_rate": 0.15, "return_mean": 7.0} | learned,
            {"seed": 0, "updates": 300, "env_steps": 5000, "seconds": 42.0, "win_rate": 0.25, "return_mean": 7.12} | learned,
        ]
    )
    assert table_1.row(run) == ["5,000", "0.200", "7.06", "0.250", "2,000", "10.00", "2.50"]


def test_a_short_run_is_timed_from_its_first_line(tmp_path):
    run = run_dir.create(tmp_path / "run", small())
    learned = {"td_loss": 0.5, "target_variance": 2.0, "win_rate": 0.25, "return_mean": 7.124}
    run.append_metrics(
        [
            {"seed": 0, "updates": 0, "env_steps": 1000, "seconds": 30.0, "win_rate": 0.0},
            {"seed": 0, "updates": 100, "env_steps": 5000, "seconds": 32.0} | learned,
        ]
    )
    assert table_1.row(run)[-3:] == ["2,000", "20.00", ""]


@pytest.mark.slow
def test_the_table_ends_with_random_actions(tmp_path, monkeypatch):
    monkeypatch.setattr(table_1, "STEPS", {"2m_vs_2m": 100})
    monkeypatch.setattr(table_1, "RANDOM_EPISODES", 2)
    run = run_dir.create(tmp_path / "run", small(log_every=2))
    assert trainer.train(run.config, run).finished
    lines = table_1.report({"ours": run}, tmp_path).read_text().splitlines()
    *rows, empty, meaning = lines
    assert len(rows) == 4
    assert len({line.count("|") for line in rows}) == 1
    assert rows[-1].startswith("| random actions on 2m_vs_2m | |")
    assert (empty, meaning) == ("", "Final: mean over the last 10 % of each seed's steps.")
