"""How long runs will take."""

import pytest

from refil.storage import run_dir
from refil.sweeps import estimate
from refil.sweeps.plan import PlannedRun
from tests.tiny_runs import small


@pytest.fixture(autouse=True)
def nothing_published(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def train(path, steps, seconds, method="refil", peak=None, **changes):
    """Create a run of 100 steps that has made some of them."""
    run = run_dir.create(path, small(method, **({"steps": 100} | changes)))
    memory = {} if peak is None else {"peak_bytes": peak}
    for part in (0.5, 1.0):
        run.append_metrics([{"seed": 0, "env_steps": int(part * steps), "seconds": part * seconds, "updates": 1} | memory])
    return run.path


def planned(path, method="refil", **changes):
    return PlannedRun(path.name, small(method, **({"steps": 100} | changes)), path)


def test_a_run_that_has_begun_is_judged_by_itself(tmp_path):
    path = train(tmp_path / "a", 40, 20.0)
    run = planned(path)
    # Of 100 steps at 2 per second, 60 are left.
    assert estimate.estimates([run], on_gpu=False)[run] == (30.0, path)


def test_others_are_judged_by_finished_runs_with_the_same_environment_and_method(tmp_path):
    done = train(tmp_path / "results" / "x" / "done", 100, 50.0)
    train(tmp_path / "results" / "x" / "other", 100, 1.0, "qmix_attention")
    train(tmp_path / "results" / "x" / "unfinished", 90, 1.0)
    train(tmp_path / "results" / "x" / "on_gpu", 100, 1.0, peak=9)
    runs = [planned(tmp_path / "out" / name) for name in ("a", "b")]
    runs.append(planned(tmp_path / "out" / "c", steps=300, seeds=2))  # three times the steps of two seeds
    runs.append(planned(tmp_path / "out" / "d", "vdn_attention"))
    source = done.relative_to(tmp_path)
    found = estimate.estimates(runs, on_gpu=False)
    assert [found[run] for run in runs] == [(50.0, source), (50.0, source), (300.0, source), (None, None)]
    lines = list(estimate.plan_lines(runs, 2, on_gpu=False))
    assert lines[0] == f"a  100 steps, 1 seed  about 50 s, judged by {source}"
    assert lines[3] == "d  100 steps, 1 seed  time unknown"
    # The third run follows the first.
    assert lines[4] == "4 of 4 runs to train, 2 at the same time: about 6 minutes and 1 runs of unknown length"


def test_finished_runs_take_no_time(tmp_path):
    run = planned(train(tmp_path / "out" / "a", 100, 50.0))
    assert list(estimate.plan_lines([run], 1, on_gpu=False)) == [
        "a  100 steps, 1 seed  finished",
        "0 of 1 runs to train, 1 at the same time: nothing to do",
    ]


def test_a_slot_takes_the_next_run_when_it_is_free():
    assert estimate.makespan([3.0, 1.0, 1.0, 2.0], 2) == 4.0
    assert estimate.makespan([], 2) == 0.0
