"""Runs as jobs of SLURM, one job per run, on nodes that share the folder of the sweep.

A job trains for as long as its time limit allows, saves and ends; the scheduler submits it again until the run is finished.
"""

import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from refil.errors import RefilError
from refil.sweeps.executor import JobResult
from refil.sweeps.process import Process, last_error

MAX_JOBS = 256  # submitted at the same time
MINUTES = 24 * 60  # time limit of a job unless the options say otherwise
MINUTES_TO_SAVE = 3.0  # before the time limit
SECONDS_BETWEEN_LOOKS = 5.0
SECONDS_TO_APPEAR = 15.0  # until a result is visible on a network file system
Options = dict[str, str | int]


class SlurmExecutor:
    """Submits runs with submitit; `options` are those of its jobs, as NAME=VALUE, and `gpus` a number for each job."""

    def __init__(self, folder: Path, options: tuple[str, ...], gpus: int | None, cluster: str = "slurm") -> None:
        try:
            import submitit
        except ModuleNotFoundError as error:
            raise RefilError("SLURM needs the extra 'slurm': pip install 'refil[slurm]'") from error
        if cluster == "slurm" and shutil.which("sbatch") is None:
            raise RefilError("there is no SLURM on this machine: it has no command sbatch")
        chosen = parse_options(options)
        minutes = chosen.pop("time", MINUTES)
        if not isinstance(minutes, int) or minutes <= MINUTES_TO_SAVE:
            raise RefilError(f"the job option time={minutes} should be a number of minutes above {MINUTES_TO_SAVE:.0f}")
        self.minutes = minutes - MINUTES_TO_SAVE
        self.submitit, self.folder = submitit, folder
        self.executor = submitit.AutoExecutor(folder=folder.absolute() / "%j", cluster=cluster)
        self.executor.update_parameters(name="refil", timeout_min=minutes, **_parameters(submitit, chosen, gpus))

    def capacity(self) -> int:
        """Return how many jobs may be in the queue."""
        return MAX_JOBS

    def start(self, path: Path, minutes: float | None, environment: dict[str, str]) -> "SlurmJob":
        """Submit a job."""
        minutes = self.minutes if minutes is None else min(minutes, self.minutes)
        try:
            job = self.executor.submit(SlurmTask(), path.absolute(), minutes, environment)
        except (OSError, subprocess.CalledProcessError, self.submitit.core.utils.FailedJobError) as error:
            raise RefilError(f"SLURM does not accept the job: {last_error(str(error).splitlines())}") from error
        return SlurmJob(job)

    def close(self) -> None:
        """Do nothing: all jobs have ended or were cancelled."""


class SlurmJob:
    """A submitted job."""

    def __init__(self, job: Any) -> None:
        self.job, self.where = job, f"SLURM job {job.job_id}"
        self.looked = time.monotonic()
        self.gone: float | None = None

    def poll(self) -> JobResult | None:
        """Return how the job ended: what it says itself, or lost if it left the queue without a word."""
        if self.job.paths.result_pickle.exists():
            return self._result()
        if time.monotonic() - self.looked < SECONDS_BETWEEN_LOOKS:
            return None
        self.looked = time.monotonic()
        if self._is_queued():
            self.gone = None
        elif self.gone is None:
            self.gone = time.monotonic()
        elif time.monotonic() - self.gone > SECONDS_TO_APPEAR:
            return JobResult("lost", f"{self.where} ended without a result; its log is in {self.job.paths.folder}")
        return None

    def stop(self) -> None:
        """Cancel the job if it waits; if it runs, ask it to save and stop."""
        self._cancel("--state=PENDING")
        self._cancel("--signal=TERM")

    def kill(self) -> None:
        """Cancel the job."""
        self._cancel()

    def _cancel(self, *options: str) -> None:
        if hasattr(self.job, "_process"):  # submitit's stand-in for a cluster
            self.job._process.terminate()
        else:
            subprocess.run(["scancel", *options, self.job.job_id], capture_output=True)

    def _is_queued(self) -> bool:
        if hasattr(self.job, "_process"):
            return self.job._process.poll() is None
        asked = subprocess.run(["squeue", "-h", "-j", self.job.job_id, "-o", "%T"], capture_output=True, text=True)
        if asked.returncode != 0:
            return "Invalid job id" not in asked.stderr  # otherwise the controller does not answer for a moment
        return any(state not in ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT") for state in asked.stdout.split())

    def _result(self) -> JobResult:
        try:
            return JobResult(*self.job.result())
        except Exception as error:  # submitit has several kinds, and its own text is long
            text = last_error(str(error).splitlines())
            how = "lost" if "not requeued" in str(error) else "failed"
            return JobResult(how, f"{text}; the log of {self.where} is in {self.job.paths.folder}")


class SlurmTask:
    """The program of a job; submitit calls `checkpoint` when SLURM announces that it will end the job."""

    def __call__(self, path: Path, minutes: float, environment: dict[str, str]) -> tuple[str, str]:
        """Train the run in a folder."""
        self.process = Process(path, environment, minutes)
        while (ended := self.process.poll()) is None:
            time.sleep(0.5)
        return ended.how, ended.error

    def checkpoint(self, path: Path, minutes: float, environment: dict[str, str]) -> None:
        """Save and stop; the scheduler, not submitit, decides what is submitted again."""
        self.process.stop()
        self.process.process.wait()


def parse_options(options: tuple[str, ...]) -> Options:
    """Return options by their names; whole numbers become numbers."""
    found: Options = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not (equals and value and re.fullmatch(r"[a-z][a-z0-9_-]*", name)):
            raise RefilError(f"the job option {option!r} should be NAME=VALUE, such as partition=gpu")
        found[name.replace("-", "_")] = int(value) if value.isdecimal() else value
    return found


def _parameters(submitit: Any, options: Options, gpus: int | None) -> dict[str, Any]:
    if gpus:
        options = {"gpus_per_node": gpus} | options
    known = submitit.SlurmExecutor._valid_parameters()
    other = {name.replace("_", "-"): value for name, value in options.items() if name not in known}
    return {f"slurm_{name}": value for name, value in options.items() if name in known} | {"slurm_additional_parameters": other}
