"""The lock of a run's folder: a file lock, which ends with its process, and a claim for machines that share the folder."""

import contextlib
import errno
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from refil.errors import RefilError
from refil.storage import claims, regular, serialization

LOCK = "lock"
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)  # by some network file systems
# Temporary files of processes that were killed while they wrote; only the holder of the lock writes these files.
PART = re.compile(r"\.(config\.json|metrics\.jsonl|unsaved|learning_curve\.png|\w+\.safetensors)\.([0-9a-f]{16}\.)?part")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of a run's folder, on this machine and on others that share it, also after one is killed."""
    if importlib.util.find_spec("fcntl") is None:
        raise RefilError("Windows is not supported: it lacks the file locks that refil needs")
    serialization.make_folder(path)
    with serialization.wrap_os_errors(path / LOCK):
        file = regular.open_file(path / LOCK, "a")
    with file, claims.claimed(path, alone=_lock(file, path)):
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
    except (ImportError, OSError):  # no file: nobody has trained here
        return False
    return False


def _lock(file: IO[str], path: Path) -> bool:
    """Lock a file; return False where the file system has no locks."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise claims.HeldError(f"another process is training in {path}") from None
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise RefilError(f"cannot lock {path / LOCK}: {error.strerror}") from error
        return False
    return True


def _remove_parts(path: Path) -> None:
    for part in path.glob(".*.part"):
        if PART.fullmatch(part.name):
            with contextlib.suppress(OSError):
                part.unlink()
