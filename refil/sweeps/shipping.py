"""The files of a run as bytes, for machines that share no file system: what changed is shipped to the folder of the sweep."""

import errno
from pathlib import Path
from typing import NamedTuple

from refil.storage import regular, run_dir, serialization
from refil.storage.claims import NAME as CLAIM
from refil.storage.lock import LOCK

Stamps = dict[str, tuple[int, int]]  # time of the last change and size of each file


class Changes(NamedTuple):
    """Files that are new or were replaced, and names of those that are gone."""

    files: dict[str, bytes]
    gone: list[str]


def changes(path: Path, known: Stamps) -> Changes:
    """Return what has changed in the folder of a run since the last call with these stamps, which are updated.

    Metrics are read after the checkpoint, so that they cover it while the run trains.
    """
    now = _stamps(path)
    files = {}
    for name in sorted(now, key=lambda name: (name == run_dir.METRICS, name)):
        if now[name] != known.get(name):
            try:
                with regular.open_file(path / name) as file:
                    files[name] = file.read()
            except OSError as error:
                if error.errno not in (errno.ENOENT, None):
                    raise
                del now[name]  # removed just now, or replaced by a FIFO or a folder
    gone = sorted(known.keys() - now.keys())
    known.clear()
    known.update(now)
    return Changes(files, gone)


def apply(path: Path, shipped: Changes) -> None:
    """Make the same changes in another folder, at any moment of which the run can be resumed."""
    for name in sorted(shipped.files, key=_order):
        serialization.make_subfolder(path, (path / name).parent)
        serialization.write_atomic(path / name, shipped.files[name])
    for name in shipped.gone:
        serialization.remove(path / name)


def _order(name: str) -> tuple[int, str]:
    # A checkpoint covers metrics and, when the run is finished, implies models.
    return {run_dir.METRICS: 0, run_dir.CHECKPOINT: 2}.get(name, 1), name


def _stamps(path: Path) -> Stamps:
    found = {}
    for file in path.rglob("*"):
        name = file.relative_to(path).as_posix()
        temporary = file.name.endswith(".part") or name == LOCK or CLAIM.fullmatch(name)
        if temporary or name.startswith("aborted_") or file.is_symlink():
            continue
        try:
            if file.is_file():
                found[name] = (file.stat().st_mtime_ns, file.stat().st_size)
        except FileNotFoundError:
            continue
    return found
