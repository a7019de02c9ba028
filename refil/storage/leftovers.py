"""Files that an earlier process has left in the folder of a run: none is deleted, those of a start are moved away."""

import itertools
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from refil.storage import model_files, serialization


def has_content(path: Path) -> bool:
    """Return whether there is something else than an empty file."""
    return path.exists() and path.stat().st_size > 0


def find(folder: Path, names: Sequence[str], seeds: Collection[int] | None = None) -> list[Path]:
    """Return files of these names, and models of these seeds (None: those of the config), that are not empty."""
    paths = [*(folder / name for name in names), *model_files.find(folder, seeds).values()]
    return [path for path in paths if has_content(path)]


def archive(folder: Path, files: Sequence[Path]) -> Path | None:
    """Move files into a new folder, and return its path; None if there are no files."""
    if not files:
        return None
    target = next(path for n in itertools.count(1) if not os.path.lexists(path := folder / f"aborted_{n}"))
    serialization.make_folder(target)
    for path in files:
        with serialization.wrap_os_errors(target / path.name):
            path.rename(target / path.name)
    return target
