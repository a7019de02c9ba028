"""The scheduler, with jobs that are decided by the test, and with real processes that are stopped and killed."""

import os
import signal
import threading
import time

import pytest

from refil.storage import claims, run_dir
from refil.sweeps import state
from refil.sweeps.executor import JobResult
from refil.sweeps.plan import ERROR, PlannedRun
from refil.sweeps.scheduler import MAX_LOSSES, Scheduler
from tests.sweeps import tiny_sweeps
from tests.tiny_runs import small

FINISHED, LOST, STOPPED, FAILED = (
    JobResult("finished"),
    JobResult("lost", "gone"),
    JobResult("stopped"),
    JobResult("failed", "bad luck"),
)


class ScriptedJob:
    """Ends at once as it was told to, or when it is asked to stop."""

    where = "here"

    def __init__(self, path, ended):
        self.path, self.ended, self.asked = path, ended, 0

    def poll(self):
        if self.ended is FINISHED:
            run_dir.open_run(self.path).append_metrics([{"seed": 0, "env_steps": 200, "updates": 1, "win_rate": 0.5}])
        return self.ended

    def stop(self):
        self.asked += 1
        self.ended = STOPPED

    kill = stop


class ScriptedExecutor:
    def __init__(self, *ends, slots=1):
        self.ends, self.slots, self.jobs, self.closed = list(ends), slots, [], False

    def capacity(self):
        return self.slots

    def start(self, path, minutes, environment):
        self.jobs.append(ScriptedJob(path, self.ends.pop(0)))
        return self.jobs[-1]

    def close(self):
        self.closed = True


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr("refil.sweeps.scheduler.SECONDS_BETWEEN_LOOKS", 0.01)


def scheduler(tmp_path, executor, names="ab", **options):
    return Scheduler([PlannedRun(name, small(), tmp_path / name) for name in names], executor, lambda text: None, **options)


def test_a_failure_is_noted_and_does_not_stop_the_others(tmp_path):
    work = scheduler(tmp_path, executor := ScriptedExecutor(FAILED, FINISHED))
    work.work()
    assert {run.label: error for run, error in work.failed.items()} == {"a": "bad luck"}
    assert (tmp_path / "a" / ERROR).read_text() == "bad luck\n"
    assert state.read(tmp_path / "b").status == "finished"
    assert executor.closed
    again = scheduler(tmp_path, executor := ScriptedExecutor(FINISHED))
    again.work()
    assert [job.path.name for job in executor.jobs] == ["a"]
    assert not again.failed
    assert not (tmp_path / "a" / ERROR).exists()


def test_a_lost_run_is_tried_again_but_not_forever(tmp_path):
    work = scheduler(tmp_path, ScriptedExecutor(LOST, STOPPED, FINISHED), "a")
    work.work()
    assert not work.failed
    work = scheduler(tmp_path, executor := ScriptedExecutor(*[LOST] * 9), "b")
    work.work()
    assert len(executor.jobs) == MAX_LOSSES
    assert "lost 3 times without a new checkpoint: gone" in next(iter(work.failed.values()))


def test_as_many_runs_train_at_the_same_time_as_there_are_slots(tmp_path):
    work = scheduler(tmp_path, executor := ScriptedExecutor(*[None] * 3, slots=2), "abc")
    thread = threading.Thread(target=work.work)
    thread.start()
    while len(executor.jobs) < 2:
        time.sleep(0.01)
    time.sleep(0.2)
    assert len(executor.jobs) == 2
    work.stop.set()
    thread.join()
    assert [job.asked for job in executor.jobs] == [1, 1]  # a second time would end them without saving
    assert len(work.waiting) == 3


def test_nothing_is_started_with_too_little_time_left(tmp_path):
    work = scheduler(tmp_path, executor := ScriptedExecutor(), deadline=time.monotonic() + 20)
    work.work()
    assert not executor.jobs
    assert len(work.waiting) == 2


def test_a_run_that_another_process_trains_is_left_to_it(tmp_path):
    work = scheduler(tmp_path, executor := ScriptedExecutor(FINISHED))
    work.runs[0].prepare()
    with claims.claimed(tmp_path / "a", alone=True):
        thread = threading.Thread(target=work.work)
        thread.start()
        while thread.is_alive() and not (executor.jobs and state.read(tmp_path / "b").status == "finished"):
            time.sleep(0.01)
        ScriptedJob(tmp_path / "a", FINISHED).poll()
    thread.join()
    assert [job.path.name for job in executor.jobs] == ["b"]
    assert not work.failed


def test_the_failure_of_another_process_is_not_repeated(tmp_path):
    work = scheduler(tmp_path, executor := ScriptedExecutor(), "a")
    work.runs[0].prepare()
    with claims.claimed(tmp_path / "a", alone=True):
        thread = threading.Thread(target=work.work)
        thread.start()
        while not work.elsewhere:
            time.sleep(0.01)
        (tmp_path / "a" / ERROR).write_text("their error")
    thread.join()
    assert not executor.jobs
    assert list(work.failed.values()) == ["their error"]


@pytest.mark.slow
def test_ctrl_c_saves_and_a_killed_sweep_is_taken_over_by_another_with_the_same_bytes(tmp_path, undisturbed):
    out, mine = tmp_path / "out", tiny_sweeps.write_experiment(tmp_path)
    words = ("sweep", mine, "--slots", 1, "--out", out)
    first = tiny_sweeps.start(*words)
    tiny_sweeps.wait_until(lambda: tiny_sweeps.is_in_the_middle(out / "a"), first)
    first.send_signal(signal.SIGINT)
    printed, code = tiny_sweeps.finish(first)
    assert code == 130, printed
    assert "Stopped; everything is saved. The same command resumes: refil sweep" in printed
    assert not list(out.glob("*/claim_*"))
    first, second = tiny_sweeps.start(*words), tiny_sweeps.start(*words)
    try:
        tiny_sweeps.wait_until(lambda: all(claims.holder(out / name) for name in tiny_sweeps.RUNS), first)
        pids = {claims.holder(out / name).pid for name in tiny_sweeps.RUNS}
        os.kill(first.pid, signal.SIGKILL)  # its process notices, saves and ends
        first.wait()
    finally:
        printed, code = tiny_sweeps.finish(second)
    assert len(pids) == 2
    assert code == 0, printed
    assert tiny_sweeps.results(out) == undisturbed
