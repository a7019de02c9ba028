"""The table of all methods, from runs that take seconds."""

from refil.experiments import table_1
from refil.storage import run_dir
from refil.training import trainer
from tests.tiny_runs import small


def test_every_method_is_planned_on_every_set():
    planned = table_1.planned()
    assert len(planned) == 36
    assert planned["REFIL on 3-8sz"].options.steps == 100_000
    assert {(made.method, made.env) for made in planned.values()} == {(m, e) for m in table_1.PAPER for e in table_1.STEPS}
    assert all(made.options.batch == 32 and made.options.buffer == 5000 for made in planned.values())


def test_a_row_says_what_the_metrics_say(tmp_path):
    run = run_dir.create(tmp_path / "run", small())
    learned = {"td_loss": 0.5, "target_variance": 2.0, "peak_bytes": 2_500_000_000}
    run.append(
        [
            {"updates": 0, "env_steps": 8, "seconds": 30.0, "peak_bytes": 1_000_000_000, "win_rate": 0.0},
            {"updates": 100, "env_steps": 1000, "seconds": 40.0} | learned,
            {"updates": 300, "env_steps": 5000, "seconds": 42.0, "win_rate": 0.25, "return_mean": 7.124} | learned,
        ]
    )
    assert table_1.row(run) == ["5,000", "0.250", "7.12", "0.250", "2,000", "10.00", "2.50"]


def test_a_short_run_is_timed_from_its_first_line(tmp_path):
    run = run_dir.create(tmp_path / "run", small())
    learned = {"td_loss": 0.5, "target_variance": 2.0, "win_rate": 0.25, "return_mean": 7.124}
    run.append(
        [
            {"updates": 0, "env_steps": 1000, "seconds": 30.0, "win_rate": 0.0},
            {"updates": 100, "env_steps": 5000, "seconds": 32.0} | learned,
        ]
    )
    assert table_1.row(run)[-3:] == ["2,000", "20.00", ""]


def test_the_table_ends_with_random_actions(tmp_path, monkeypatch):
    monkeypatch.setattr(table_1, "STEPS", {"2m_vs_2m": 100})
    monkeypatch.setattr(table_1, "TRIED", 2)
    run = run_dir.create(tmp_path / "run", small(log_every=2))
    assert trainer.run(run.experiment, run)
    lines = table_1.conclude({"ours": run}, tmp_path).read_text().splitlines()
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1
    assert lines[-1].startswith("| random actions on 2m_vs_2m | |")
