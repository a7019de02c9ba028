"""The lock of a run's folder."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from refil.errors import RefilError
from refil.storage import regular, serialization

LOCK = "lock"
# Temporary files of processes that were killed while they wrote; only the holder of the lock writes these files.
PART = re.compile(r"\.(config\.json|metrics\.jsonl|unsaved|learning_curve\.png|\w+\.safetensors)\.([0-9a-f]{16}\.)?part")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of a run's folder; the lock ends with its process, even if that is killed."""
    try:
        import fcntl
    except ImportError:
        raise RefilError("Windows is not supported: it lacks the file locks that refil needs") from None
    serialization.make_folder(path)
    with serialization.wrap_os_errors(path / LOCK):
        file = regular.open_file(path / LOCK, "a")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefilError(f"another process is training in {path}") from None
        _remove_parts(path)
        yield


def is_locked(path: Path) -> bool:
    """Return whether a process trains in a run's folder."""
    try:
        import fcntl

        with regular.open_file(path / LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):  # without the file, nobody has trained here
        return False
    return False


def _remove_parts(path: Path) -> None:
    for part in path.glob(".*.part"):
        if PART.fullmatch(part.name):
            with contextlib.suppress(OSError):
                part.unlink()
