"""A process that trains the run in a folder: the ordinary command, with its output in a log."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from refil.storage import regular
from refil.sweeps.executor import JobResult
from refil.sweeps.plan import LOG

STOPPED = 130  # exit code of `refil train` after a save
TAIL = 50  # lines kept in memory, because a disk may be full
# Linux sends the child SIGTERM when its parent dies, even by SIGKILL, so that no process trains on without a sweep.
ENDS_WITH_PARENT = (
    "import ctypes, os, signal, sys\n"
    "signal.signal(signal.SIGUSR2, signal.SIG_IGN)\n"  # by which SLURM announces the end of a job
    "if sys.platform == 'linux': ctypes.CDLL(None).prctl(1, 15)\n"
    "os.getppid() == int(sys.argv[1]) or sys.exit(130)\n"
    "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])\n"
)


def command(path: Path | str, minutes: float | None) -> list[str]:
    """Return the arguments of Python that train the run in a folder; its code must be trusted."""
    limit = [] if minutes is None else ["--stop-after", f"{minutes:.3f}"]
    return ["-m", "refil", "train", "--resume", str(path), *limit]


class Process:
    """A process that trains a run. It must be started in a thread that lives as long as it.

    `environment` says which code it trusts; a run whose folder was changed meanwhile does not run other code.
    """

    def __init__(self, path: Path, environment: Mapping[str, str], minutes: float | None, where: str = "") -> None:
        self.path, self.where = path, where
        words = [sys.executable, "-c", ENDS_WITH_PARENT, str(os.getpid()), *command(path, minutes)]
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | dict(environment),
            start_new_session=True,  # Ctrl-C reaches the sweep alone, which then asks its processes to stop
        )
        self.tail: deque[str] = deque(maxlen=TAIL)
        self.reader = threading.Thread(target=self._read, name="log", daemon=True)
        self.reader.start()

    def poll(self) -> JobResult | None:
        """Return how the process ended, None while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        self.reader.join(timeout=5.0)
        if code in (0, STOPPED):
            return JobResult("finished" if code == 0 else "stopped")
        return JobResult("failed", self._error(code))

    def stop(self) -> None:
        """Ask the process to save and stop."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Stop the process at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)

    def _error(self, code: int) -> str:
        if code < 0:
            name = signal.Signals(-code).name
            memory = ", perhaps by the system for lack of memory" if name == "SIGKILL" else ""
            return f"the process was ended by {name}{memory}"
        return last_error(self.tail) or f"the process ended with exit code {code}; see {LOG}"

    def _read(self) -> None:
        assert self.process.stdout is not None
        log = None
        with contextlib.suppress(OSError):
            log = regular.open_file(self.path / LOG, "ab")
        for line in self.process.stdout:
            self.tail.append(line.decode(errors="replace").rstrip())
            with contextlib.suppress(OSError):
                if log is not None:
                    log.write(line)
                    log.flush()
        with contextlib.suppress(OSError):
            if log is not None:
                log.close()


def last_error(lines: "deque[str] | list[str]") -> str:
    """Return the error in the last lines of a log: what `refil` said, or else the last line."""
    said = [line.removeprefix("refil: ") for line in lines if line.startswith("refil: ")]
    return said[-1] if said else next((line for line in reversed(lines) if line.strip()), "")
