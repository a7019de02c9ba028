"""Regular files: FIFOs, devices and folders in their place are refused at once, and nothing is written through links."""

import os
import stat
from pathlib import Path
from typing import IO, Any

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_file(path: Path, mode: str = "rb") -> IO[Any]:
    """Open a regular file; to write, it may not be a symbolic link. Other kinds raise OSError and never block."""
    return open(path, mode, opener=_opener)


def check(path: Path) -> None:
    """Raise OSError if a path is not that of a regular file."""
    _check_mode(os.stat(path))


def _opener(name: str, flags: int) -> int:
    writing = bool(flags & (os.O_WRONLY | os.O_RDWR))
    try:  # opening a device may have effects, so look first
        _check_mode(os.lstat(name) if writing else os.stat(name))
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    return os.open(name, flags | os.O_NONBLOCK | (os.O_NOFOLLOW if writing else 0), 0o666)


def _check_mode(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"it is {KINDS.get(stat.S_IFMT(found.st_mode), 'something')}, not a regular file")
