"""Claims: files that say which process trains in a folder, also to other machines that share it.

The claim with the highest number counts. A process creates its claim exclusively and touches it every few seconds. A claim that
nobody touches any more is taken over by creating the one with the next number, which only one process can do; the process that
lost it stops as soon as it notices, without writing anything.
"""

import contextlib
import functools
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from refil.errors import RefilError
from refil.storage import regular, serialization

HEARTBEAT = 5.0  # seconds between touches
STALE = 60.0  # seconds without one after which a claim may be taken over
WATCHED = 3 * HEARTBEAT  # seconds for which it is watched before, because clocks of machines differ
NAME = re.compile(r"claim_(\d{1,9})\.json")
BOOT, PID_NAMESPACE = Path("/proc/sys/kernel/random/boot_id"), "/proc/self/ns/pid"


class HeldError(RefilError):
    """Another process trains in a folder."""


class Claim(NamedTuple):
    """A claim, as its file describes it."""

    path: Path
    number: int
    host: str
    machine: str
    pid: int
    touched: int  # time of its last touch in ns

    @property
    def is_held(self) -> bool:
        """Whether its process seems to be alive."""
        if time.time() - self.touched / 1e9 > STALE:
            return False
        return self.machine != _machine() or _is_alive(self.pid)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def newest(folder: Path) -> Claim | None:
    """Return the claim that counts, if there is one."""
    with serialization.wrap_os_errors(folder, "read"):
        names = os.listdir(folder) if folder.is_dir() else []
    numbers = [int(found[1]) for name in names if (found := NAME.fullmatch(name))]
    claim = _read(folder, max(numbers)) if numbers else None
    return claim if claim is not None and claim.touched else None


def holder(folder: Path) -> Claim | None:
    """Return the claim of the process that trains in a folder, if there is one."""
    claim = newest(folder)
    return claim if claim is not None and claim.is_held else None


@contextlib.contextmanager
def claimed(folder: Path, alone: bool, lost: Callable[[], Any] | None = None) -> Iterator[None]:
    """Hold a claim; raise if another process holds it.

    `alone` says that no other process of this machine trains in the folder, so that what it left is free at once. `lost` is
    called if another machine has taken the claim over; by default the process ends.
    """
    claim, closed = _acquire(folder, alone), threading.Event()
    react = lost or (lambda: _end(folder))
    thread = threading.Thread(target=_keep, args=(claim, closed, react), name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        closed.set()
        thread.join()
        with contextlib.suppress(OSError):
            claim.path.unlink()


def _acquire(folder: Path, alone: bool) -> Claim:
    before = newest(folder)
    if before is not None and not _is_abandoned(before, alone):
        raise HeldError(f"another process is training in {folder}: {before}")
    number = before.number + 1 if before else 1
    path = folder / f"claim_{number}.json"
    with serialization.wrap_os_errors(path):
        try:
            with regular.open_file(path, "x") as file:
                json.dump({"host": socket.gethostname(), "machine": _machine(), "pid": os.getpid()}, file)
        except FileExistsError:
            raise HeldError(f"another process is training in {folder}: it was faster") from None
    # Between the first look and now, the process that seemed dead may have ended and others may have come.
    now, kept = newest(folder), before is None or _touched(before.path) == before.touched
    if now is None or now.number != number or not kept:
        path.unlink(missing_ok=True)
        raise HeldError(f"another process is training in {folder}: {now}")
    if before is not None:
        before.path.unlink(missing_ok=True)
    return now


def _is_abandoned(claim: Claim, alone: bool) -> bool:
    if alone and claim.machine == _machine():
        return True
    if time.time() - claim.touched / 1e9 <= STALE:
        return False
    time.sleep(WATCHED)
    return _touched(claim.path) == claim.touched


def _keep(claim: Claim, closed: threading.Event, lost: Callable[[], Any]) -> None:
    while not closed.wait(HEARTBEAT):
        try:
            os.utime(claim.path)
            found = newest(claim.path.parent)
        except FileNotFoundError:
            found = None
        except (OSError, RefilError):  # a server that does not answer for a moment
            continue
        if (found is None or found.number != claim.number) and not closed.is_set():
            lost()
            return


def _end(folder: Path) -> NoReturn:
    os.write(2, f"refil: another process has taken over {folder}, because this one did not respond\n".encode())
    os._exit(1)


def _read(folder: Path, number: int) -> Claim:
    path = folder / f"claim_{number}.json"
    try:
        values = json.loads(regular.open_file(path).read())
        known = str(values["host"]), str(values["machine"]), int(values["pid"])
    except (OSError, ValueError, KeyError, TypeError):  # it is just being written, or just gone
        known = "an unknown host", "", 0
    return Claim(path, number, *known, touched=_touched(path))


def _touched(path: Path) -> int:
    """Return when a claim was touched, 0 if it is gone; opening it makes network file systems ask the server."""
    try:
        with regular.open_file(path) as file:
            return os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return 0


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


@functools.cache
def _machine() -> str:
    """Return what tells machines, and containers in which process numbers mean something else, apart."""
    with contextlib.suppress(OSError):
        return f"{socket.gethostname()} {BOOT.read_text().strip()} {os.readlink(PID_NAMESPACE)}"
    return socket.gethostname()
