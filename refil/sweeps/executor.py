"""The interface of executors: where the runs of a sweep train."""

from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable


class JobResult(NamedTuple):
    """How a job ended.

    A job that was stopped has saved its run. If it was lost, with its process or its machine, the run goes back to its last
    checkpoint.
    """

    how: Literal["finished", "stopped", "lost", "failed"]
    error: str = ""


@runtime_checkable
class Job(Protocol):
    """A process that trains a run somewhere."""

    where: str

    def poll(self) -> JobResult | None:
        """Return how the job ended, None while it runs. Whatever it has saved is then in the folder of the run."""

    def stop(self) -> None:
        """Ask the job to save and stop."""

    def kill(self) -> None:
        """Stop the job at once, without saving."""


@runtime_checkable
class Executor(Protocol):
    """Starts jobs."""

    def capacity(self) -> int:
        """Return how many jobs can run at the same time, now."""
        ...

    def start(self, path: Path, minutes: float | None, environment: dict[str, str]) -> Job:
        """Start to train the run in a folder, for at most a number of minutes, with these environment variables."""
        ...

    def close(self) -> None:
        """Release what belongs to no job."""
