"""How long runs will take."""

from pathlib import Path

import pytest

from refil import plugins
from refil.storage import run_dir
from refil.sweeps import estimate
from refil.sweeps.plan import PlannedRun, plan
from tests.tiny_runs import small

ROOT = Path(__file__).parent.parent.parent
METHODS = ("REFIL on", "QMIX (Attention) on", "VDN (Attention) on", "REFIL (VDN) on")


@pytest.fixture(autouse=True)
def nothing_published(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def config(method, method_options=None, **changes):
    """Return the config of a run of 100 steps."""
    return small(method, **({"steps": 100} | changes)).with_options(None, method_options)


def train(path, made, seconds, method="refil", peak=None, **changes):
    """Create a run that has made a number of steps."""
    run = run_dir.create(path, config(method, **changes))
    memory = {} if peak is None else {"peak_bytes": peak}
    for part in (0.5, 1.0):
        run.append_metrics([{"seed": 0, "env_steps": int(part * made), "seconds": part * seconds, "updates": 1} | memory])
    return run.path


def planned(path, method="refil", **changes):
    return PlannedRun(path.name, config(method, **changes), path)


def test_a_run_that_has_begun_is_judged_by_itself(tmp_path):
    path = train(tmp_path / "a", 40, 20.0)
    run = planned(path)
    # Of 100 steps at 2 per second, 60 are left.
    assert estimate.estimates([run], on_gpu=False)[run] == (30.0, path, "")


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
    assert [found[run] for run in runs] == [
        (50.0, source, ""),
        (50.0, source, ""),
        (300.0, source, ""),
        (None, None, ""),
    ]
    lines = list(estimate.plan_lines(runs, 2, on_gpu=False))
    assert lines[0] == f"a  100 steps, 1 seed  about 50 s, judged by {source}"
    assert lines[3] == "d  100 steps, 1 seed  time unknown"
    # The third run follows the first.
    assert lines[4] == "4 of 4 runs to train, 2 at the same time: about 6 minutes and 1 runs of unknown length"


def test_without_a_run_like_it_the_nearest_one_is_taken_and_the_plan_says_so(tmp_path):
    results = tmp_path / "results"
    near = train(results / "near", 100, 50.0, envs=4).relative_to(tmp_path)
    train(results / "far", 100, 1.0, envs=64)
    train(results / "other", 100, 1.0, method_options={"groups": 3})
    train(results / "short", 100, 1.0, "vdn_attention")
    runs = [planned(tmp_path / "out" / "a"), planned(tmp_path / "out" / "b", method_options={"imagined_weight": 0.75})]
    runs.append(planned(tmp_path / "out" / "c", "vdn_attention", steps=100_000))
    found = estimate.estimates(runs, on_gpu=False)
    assert found[runs[0]] == (50.0, near, "runs with 4 environments in float32")
    assert found[runs[1]].other == "runs with 4 environments, imagined_weight 0.5 in float32"
    # 99,900 steps are left at 100 per second; the run is the only one of its method, although it is short.
    assert found[runs[2]].seconds == pytest.approx(1000.0)
    line, *_ = estimate.plan_lines(runs, 1, on_gpu=False)
    assert line == f"a  100 steps, 1 seed  about 50 s, estimated from runs with 4 environments in float32: {near}"


def test_a_run_that_took_too_few_steps_to_judge_by_comes_last(tmp_path):
    train(tmp_path / "results" / "compiling", 100, 90.0)
    long = train(tmp_path / "results" / "long", 5000, 50.0, steps=5000, envs=8).relative_to(tmp_path)
    run = planned(tmp_path / "out" / "a", steps=100_000)
    assert estimate.estimates([run], on_gpu=False)[run][:2] == (1000.0, long)


def test_published_runs_of_version_0_1_judge_the_paper_s_figures(monkeypatch):
    monkeypatch.chdir(ROOT)
    for name, labels in (("figure_4", METHODS), ("figure_3b", [""])):
        whole = plan(plugins.load("refil.experiments", name).runs(), Path("nowhere"), lambda _, path: path)
        runs = [run for run in whole if any(run.label.startswith(label) for label in labels)]
        assert len(runs) >= 4
        found = estimate.estimates(runs, on_gpu=True)
        assert all(each.seconds is not None and each.source is not None for each in found.values())
        assert all("environments in" in each.other for each in found.values())  # float32 was not published
    fast = plugins.load("refil.experiments", "figure_4").runs()["REFIL on 3-8sz"].with_options(envs=128, precision="bf16")
    run = PlannedRun("fast", fast, Path("nowhere"))
    found = estimate.estimates([run], on_gpu=True)[run]
    assert (found.source, found.other) == (Path("results/starcraft/figure_4/refil_on_3_8sz"), "")
    # It made 3 million steps of three seeds in 542 s.
    assert found.seconds == pytest.approx(542, abs=2)


def test_finished_runs_take_no_time(tmp_path):
    run = planned(train(tmp_path / "out" / "a", 100, 50.0))
    assert list(estimate.plan_lines([run], 1, on_gpu=False)) == [
        "a  100 steps, 1 seed  finished",
        "0 of 1 runs to train, 1 at the same time: nothing to do",
    ]


def test_a_slot_takes_the_next_run_when_it_is_free():
    assert estimate.makespan([3.0, 1.0, 1.0, 2.0], 2) == 4.0
    assert estimate.makespan([], 2) == 0.0
