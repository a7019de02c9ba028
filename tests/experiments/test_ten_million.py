"""The figure and table of the long runs, from made-up metrics."""

from refil.experiments import figure_4, ten_million
from refil.storage import run_dir
from tests.tiny_runs import small


def test_refil_runs_on_every_task_set_as_in_the_paper():
    runs = ten_million.runs().values()
    assert [(made.method.name, made.env.name) for made in runs] == [("refil", env) for env in figure_4.TASK_SETS]
    assert {(made.train.steps, made.train.seeds, made.algorithm.batch) for made in runs} == {(10_000_000, 1, 32)}


def test_the_table_has_the_win_rate_just_before_each_column(tmp_path):
    done = {label: run_dir.create(tmp_path / str(number), small()) for number, label in enumerate(ten_million.runs())}
    for run in done.values():
        # Half are won from shortly before 1M steps, all only at the end.
        rates = [0.5 * (n >= 8) + 0.5 * (n >= 98) for n in range(101)]
        run.append_metrics([{"seed": 0, "env_steps": n * 10**5, "win_rate": rate} for n, rate in enumerate(rates)])
    assert ten_million.report(done, tmp_path).exists()
    head, line, *rows = (tmp_path / "ten_million.md").read_text().splitlines()
    assert head == "| million steps | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 |"
    assert line.count("---") == 11
    assert rows == [f"| {label} | {'50% | ' * 9}100% |" for label in done]
