"""The long runs' figure and table, from metrics made up."""

from refil.experiments import figure_4, ten_million
from refil.storage import run_dir
from tests.tiny_runs import small


def test_refil_is_planned_on_every_set_as_the_paper_ran_it():
    planned = ten_million.planned()
    assert [(made.method, made.env) for made in planned.values()] == [("refil", env) for env in figure_4.SETS]
    assert {(made.options.steps, made.options.seeds, made.options.batch) for made in planned.values()} == {(10_000_000, 1, 32)}


def test_the_table_has_what_was_won_just_before_each_column(tmp_path):
    done = {label: run_dir.create(tmp_path / str(number), small()) for number, label in enumerate(ten_million.planned())}
    for run in done.values():
        # Half shortly before 1M steps and from then on, all at the end alone.
        run.append([{"seed": 0, "env_steps": n * 10**5, "win_rate": 0.5 * (n >= 8) + 0.5 * (n >= 98)} for n in range(101)])
    assert ten_million.conclude(done, tmp_path).exists()
    head, line, *rows = (tmp_path / "ten_million.md").read_text().splitlines()
    assert head == "| million steps | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 |"
    assert line.count("---") == 11
    assert rows == [f"| {label} | {'50% | ' * 9}100% |" for label in done]
