"""Runs on this machine: slots on its GPUs, or on its CPU, with a process each."""

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from refil.errors import RefilError
from refil.sweeps.process import Process

VISIBLE, FRACTION, OLD_FRACTION = "CUDA_VISIBLE_DEVICES", "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"
MAX_MEMORY = 0.9  # fraction of a GPU's memory for all runs that share it


class LocalExecutor:
    """Trains as many runs at the same time as there are slots; a slot is a name and environment variables."""

    def __init__(self, slots: list[tuple[str, dict[str, str]]]) -> None:
        self.slots = slots
        self.jobs: list[Process | None] = [None] * len(slots)

    def capacity(self) -> int:
        """Return the number of slots."""
        return len(self.slots)

    def start(self, path: Path, minutes: float | None, environment: dict[str, str]) -> Process:
        """Start a process in a free slot."""
        number = next(n for n, job in enumerate(self.jobs) if job is None or job.poll() is not None)
        name, own = self.slots[number]
        self.jobs[number] = job = Process(path, environment | own, minutes, name)
        return job

    def close(self) -> None:
        """Do nothing: every process has ended."""


def slots(per_device: int, gpus: int | None) -> list[tuple[str, dict[str, str]]]:
    """Return the slots of this machine: `per_device` on each of `gpus` GPUs (None: all), or on the CPU."""
    found = find_gpus() if gpus != 0 else []
    if gpus is not None and gpus > len(found):
        raise RefilError(f"gpus={gpus} asks for more GPUs than there are: {missing_reason(found)}")
    if not found:
        forced = {"JAX_PLATFORMS": "cpu"} if gpus == 0 else {}
        return [(f"CPU slot {number}" if per_device > 1 else "CPU", forced) for number in range(per_device)]
    chosen = found if gpus is None else found[:gpus]
    shared = memory(per_device, os.environ)
    return [
        (f"GPU {gpu}" if per_device == 1 else f"GPU {gpu} slot {number}", {VISIBLE: gpu} | shared)
        for number in range(per_device)  # one run on every GPU before any gets a second one
        for gpu in chosen
    ]


def memory(per_device: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that gives a run its part of a GPU's memory, unless it is alone there or the user chose it."""
    if per_device == 1 or FRACTION in environment or OLD_FRACTION in environment:
        return {}
    return {FRACTION: f"{MAX_MEMORY / per_device:.3f}"}


def find_gpus() -> list[str]:
    """Return the GPUs that runs can use, as CUDA_VISIBLE_DEVICES names them, without starting JAX, which would occupy them."""
    if not jax_has_cuda() or os.environ.get("JAX_PLATFORMS", "cuda").split(",")[0] not in ("cuda", "gpu", ""):
        return []
    if (chosen := os.environ.get(VISIBLE)) is not None:
        return [gpu.strip() for gpu in chosen.split(",") if gpu.strip() not in ("", "-1")]
    return _installed_gpus()


def jax_has_cuda() -> bool:
    """Return whether the part of JAX that drives GPUs is installed."""
    return any("cuda" in found.name for found in metadata.entry_points(group="jax_plugins"))


def missing_reason(found: list[str]) -> str:
    """Return why there are not more GPUs."""
    if found:
        return f"{len(found)} ({', '.join(found)})"
    if not _installed_gpus():
        return "nvidia-smi finds none"
    if not jax_has_cuda():
        return f"JAX cannot use them in {sys.prefix}; install the extra 'cuda': pip install 'refil[cuda]'"
    return f"{VISIBLE} or JAX_PLATFORMS hides them"


def _installed_gpus() -> list[str]:
    query = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split() if done.returncode == 0 else []
