"""The scheduler: keeps the slots of an executor busy with runs that are not finished, until none is left."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from refil import user_files
from refil.errors import RefilError
from refil.storage import claims, run_dir, serialization
from refil.sweeps import state
from refil.sweeps.executor import Executor, Job, JobResult
from refil.sweeps.plan import ERROR, PlannedRun

SECONDS_TO_START = 30.0  # a run is not started with less time left, because compilation cannot be interrupted
SECONDS_BETWEEN_LOOKS = 0.5
MAX_LOSSES = 3  # losses of one run in a row, without a checkpoint between them, after which it counts as failed


@dataclass
class Scheduler:
    """Trains runs; several schedulers, also on other machines, can share them.

    `stop` is set from outside to save and stop all jobs; `deadline`, in the time of `time.monotonic`, does the same.
    """

    runs: list[PlannedRun]
    executor: Executor
    message: Callable[[str], None]
    deadline: float | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    jobs: dict[PlannedRun, Job] = field(default_factory=dict, init=False)
    failed: dict[PlannedRun, str] = field(default_factory=dict, init=False)
    losses: dict[PlannedRun, list[int]] = field(default_factory=dict, init=False)
    waiting: list[PlannedRun] = field(default_factory=list, init=False)
    elsewhere: set[PlannedRun] = field(default_factory=set, init=False)
    asked: bool = field(default=False, init=False)
    started: float = field(default_factory=time.time, init=False)

    def work(self) -> None:
        """Train until every run is finished or failed, or until it is stopped."""
        self.waiting = list(self.runs)
        try:
            while True:
                self.poll_jobs()
                if self.stopping:
                    self.ask_to_stop()
                else:
                    self.fill()
                if not self.jobs and (self.stopping or not self.waiting):
                    return
                self.stop.wait(SECONDS_BETWEEN_LOOKS) if not self.stop.is_set() else time.sleep(SECONDS_BETWEEN_LOOKS)
        finally:
            self.kill()
            self.executor.close()

    @property
    def stopping(self) -> bool:
        """Whether no more runs are started."""
        return self.stop.is_set() or (self.deadline is not None and self.deadline - time.monotonic() < SECONDS_TO_START)

    def kill(self) -> None:
        """Stop all jobs at once, without saving."""
        for job in list(self.jobs.values()):
            job.kill()

    def ask_to_stop(self) -> None:
        """Ask all jobs to save and stop; those with a time limit of their own are not asked before it."""
        if self.stop.is_set() and not self.asked:
            self.asked = True
            for job in self.jobs.values():
                job.stop()

    def poll_jobs(self) -> None:
        """Look for jobs that have ended."""
        for run, job in list(self.jobs.items()):
            if (ended := job.poll()) is not None:
                del self.jobs[run]
                self.handle_end(run, job, ended)

    def handle_end(self, run: PlannedRun, job: Job, ended: JobResult) -> None:
        """Decide what follows from the end of a job."""
        with self.failure_of(run):
            if run.is_finished:
                self.message(f"finished {run.label}: {_win_rate(run.path)}")
                if ended.how == "failed":  # after training, for example while the learning curve was drawn
                    self.message(f"  but: {ended.error}")
            elif claims.holder(run.path) is not None or (ended.how == "stopped" and self.stopping):
                self.waiting.insert(0, run)
            elif ended.how in ("stopped", "lost"):
                self.lose(run, job, ended)
            else:
                self.fail(run, ended.error or "it ended before its last step")

    def lose(self, run: PlannedRun, job: Job, ended: JobResult) -> None:
        """Try a run again that was lost or stopped by somebody else."""
        checkpoint = run.path / run_dir.CHECKPOINT
        saved = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        losses = self.losses.get(run, [])
        self.losses[run] = [*losses, saved] if losses[-1:] == [saved] else [saved]
        reason = ended.error or "it was stopped"
        if len(self.losses[run]) >= MAX_LOSSES:
            self.fail(run, f"it was lost {MAX_LOSSES} times without a new checkpoint: {reason}")
        else:
            self.message(f"lost {run.label} on {job.where}: {reason}; it resumes from its last checkpoint")
            self.waiting.insert(0, run)

    def fail(self, run: PlannedRun, error: str) -> None:
        """Note why a run failed, here and in its folder; the others continue."""
        self.failed[run] = error
        self.message(f"failed {run.label}: {error}")
        with contextlib.suppress(RefilError):  # of a full disk, for example
            serialization.write_atomic(run.path / ERROR, f"{error}\n".encode())

    def fill(self) -> None:
        """Start runs in free slots; runs that other processes train wait until those have ended."""
        for run in list(self.waiting):
            if len(self.jobs) >= self.executor.capacity():
                return
            with self.failure_of(run):
                if self.is_free(run):
                    self.waiting.remove(run)
                    if not run.is_finished:
                        self.start(run)

    def is_free(self, run: PlannedRun) -> bool:
        """Return whether no other process trains a run, or has just failed to."""
        if (holder := claims.holder(run.path)) is not None:
            if run not in self.elsewhere:
                self.message(f"{run.label} is trained by {holder}")
            self.elsewhere.add(run)
            return False
        if run in self.elsewhere and (error := state.read_error(run.path)) and _modified(run.path / ERROR) > self.started:
            self.waiting.remove(run)
            self.fail(run, error)
            return False
        return True

    def start(self, run: PlannedRun) -> None:
        """Start a run."""
        run.prepare()
        serialization.remove(run.path / ERROR)
        minutes = None if self.deadline is None else max(0.0, self.deadline - time.monotonic()) / 60
        self.jobs[run] = job = self.executor.start(run.path, minutes, user_files.trusting(run.hashes))
        self.message(f"started {run.label} on {job.where}: {run.path}")

    @contextlib.contextmanager
    def failure_of(self, run: PlannedRun) -> Iterator[None]:
        """Turn an error about one run into its failure."""
        try:
            yield
        except claims.HeldError:  # another scheduler was faster
            self.waiting.append(run)
        except RefilError as error:
            if run in self.waiting:
                self.waiting.remove(run)
            self.fail(run, str(error))


def _win_rate(path: Path) -> str:
    found = state.read(path)
    return "no evaluation" if found.win_rate is None else f"final win rate {found.win_rate:.0%}"


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
