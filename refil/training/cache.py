"""The cache of compiled programs: a folder that later processes on the same machine read.

JAX's keys contain the program, the version of jaxlib, all flags and the kind of device. For a CPU they lack its instruction
set, so that a home folder shared by several machines could serve a program that another one cannot run. There, every kind of
CPU has a folder of its own.
"""

import hashlib
import os
import platform
import sys
import time
import warnings
import zlib
from pathlib import Path

import jax
from jaxlib.version import __version__ as jaxlib_version

CPU_INFO = Path("/proc/cpuinfo")
CPU_FIELDS = ("vendor_id", "model name", "cpu family", "model", "stepping", "flags", "CPU part", "Features")
CHECKED = "checked"  # an empty file, written when all older entries were found to be complete
ZSTANDARD = b"\x28\xb5\x2f\xfd"  # the first bytes of entries where zstandard is installed; their content is not checked
# Tuning options of some Intel CPUs, which XLA takes for missing instructions (openxla/xla issue 44565)
REJECTED = b"+prefer-no-"
SECONDS_TO_WRITE = 60  # an incomplete entry that is younger may still be being written


def enable() -> None:
    """Store compiled programs in `~/.cache/refil`, unless the user chose a folder or this machine cannot have one."""
    if jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    found = folder(jax.default_backend())
    if found is not None and _is_usable(found):
        _remove_incomplete(found)
        if _is_rejected(found):
            return
        # JAX compiles where it cannot read an entry, for example while another process writes it.
        warnings.filterwarnings("ignore", message="Error reading persistent compilation cache entry")
        jax.config.update("jax_compilation_cache_dir", str(found))


def folder(backend: str) -> Path | None:
    """Return the folder for programs of a backend; None if programs are not safe to store or there is no home folder."""
    try:
        home = Path.home() / ".cache" / "refil"
    except RuntimeError:
        return None
    if backend == "gpu":
        return home
    cpu = _cpu()
    return home / f"cpu-{jaxlib_version}-{cpu}" if backend == "cpu" and cpu else None


def _cpu() -> str | None:
    """Return a hash of the model and the instruction set of this CPU; None where they cannot be read."""
    if sys.platform != "linux":
        return None
    try:
        first = CPU_INFO.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        return None
    lines = [line for line in first.splitlines() if line.partition(":")[0].strip() in CPU_FIELDS]
    if not any(line.startswith(("flags", "Features")) for line in lines):
        return None
    return hashlib.sha256("\n".join([platform.machine(), *sorted(lines)]).encode()).hexdigest()[:16]


def _is_usable(path: Path) -> bool:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(path, os.R_OK | os.W_OK | os.X_OK)


def _remove_incomplete(path: Path) -> None:
    """Remove entries that a killed process left incomplete: JAX would keep them, and compile in every process."""
    checked = path / CHECKED
    try:
        last = checked.stat().st_mtime if checked.exists() else 0.0
        limit = time.time() - SECONDS_TO_WRITE
        recent = [entry for entry in path.glob("*-cache") if last - SECONDS_TO_WRITE <= entry.stat().st_mtime < limit]
        for entry in recent:
            if not _is_complete(entry):
                entry.unlink(missing_ok=True)
        checked.touch()
    except OSError:
        return


def _is_complete(entry: Path) -> bool:
    try:
        _decompressed(entry)
    except zlib.error:
        return False
    return True


def _is_rejected(path: Path) -> bool:
    """Return whether XLA, on this CPU, would log errors about entries that it wrote itself and not accept them."""
    sizes = {entry: entry.stat().st_size for entry in path.glob("*-cache")}
    try:
        return bool(sizes) and REJECTED in _decompressed(min(sizes, key=lambda entry: sizes[entry]))
    except (OSError, zlib.error):
        return False


def _decompressed(entry: Path) -> bytes:
    content = entry.read_bytes()
    return content if content.startswith(ZSTANDARD) else zlib.decompress(content)
