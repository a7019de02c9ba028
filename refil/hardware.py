"""The device of this process and what it supports: GPU kernels, TF32 and bfloat16.

Whether there is a GPU and what its vendor, its compute capability and the installed packages allow is decided here. Modules
with a form for GPUs ask `on_gpu`; a kernel also asks `kernels`, and for sizes that it supports. Kernels were measured
on an NVIDIA H200. Other NVIDIA GPUs since Ampere should run them but are untested, and so are GPUs of other vendors.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Literal, NamedTuple

import jax

from refil.errors import RefilError

try:
    from jax.experimental.pallas import triton as triton
except ImportError:  # JAX plans to drop this backend; every kernel has an equivalent in plain JAX for that case
    triton = None

Kernels = Literal["auto", "on", "off"]
AMPERE = (8, 0)  # the first compute capability with TF32 and bfloat16, and the oldest that Triton compiles for
NEW_ENOUGH = "NVIDIA GPU since Ampere"
_here: ContextVar[Kernels | None] = ContextVar("kernels", default=None)  # set by `using_kernels`
_process: dict[str, Kernels] = {"kernels": "auto"}
_failures: list[str] = []  # why kernels were given up in this process


@dataclass(frozen=True)
class Device:
    """The first device; `capability` is the compute capability of an NVIDIA GPU."""

    platform: str
    kind: str
    vendor: str | None = None
    capability: tuple[int, int] | None = None


class Choice(NamedTuple):
    """A decision and its reason."""

    yes: bool
    reason: str


@cache
def on_gpu() -> bool:
    """Return whether computations run on a GPU; JAX is asked once per process."""
    return jax.default_backend() == "gpu"


def device() -> Device:
    """Return what is known of the first device."""
    if not on_gpu():
        return Device(jax.default_backend(), jax.devices()[0].device_kind)
    found = jax.devices()[0]
    return describe(found.device_kind, found.client.platform_version, str(getattr(found, "compute_capability", "")))


def describe(kind: str, platform_version: str, capability: str) -> Device:
    """Return a GPU's vendor and compute capability, given what JAX reports."""
    version, known = platform_version.lower(), capability.split(".")
    if "cuda" in version:
        numbers = (int(known[0]), int(known[1])) if len(known) == 2 and all(part.isdigit() for part in known) else None
        return Device("gpu", kind, "nvidia", numbers)
    return Device("gpu", kind, "amd" if "rocm" in version or capability.startswith("gfx") else None)


def kernels() -> Choice:
    """Return whether GPU kernels are used."""
    setting = _here.get() or _process["kernels"]
    if setting == "off":
        return Choice(False, "switched off")
    if not on_gpu():
        return Choice(False, "no GPU")
    if compiler() is None:
        return Choice(False, "this version of JAX cannot compile them, and Triton is not installed (pip install triton)")
    if _failures:
        return Choice(False, f"they do not compile here: {_failures[0]}")
    reason = _unsupported(device())
    if setting == "on" or reason is None:
        return Choice(True, NEW_ENOUGH if reason is None else f"switched on, although {reason}")
    return Choice(False, f"{reason}; kernels='on' tries them")


@cache
def compilers() -> tuple[str, ...]:
    """Return what can compile kernels here, the preferred one first (`docs/measurements.md` says why).

    The environment variable REFIL_KERNEL_COMPILER leaves only one: Pallas (its Triton backend in JAX) or Triton (the package).
    """
    found = {"Pallas": triton is not None, "Triton": find_spec("triton") is not None}
    wanted = os.environ.get("REFIL_KERNEL_COMPILER")
    if wanted is not None and wanted not in found:
        raise RefilError(f"REFIL_KERNEL_COMPILER is {wanted!r}; available: {', '.join(found)}")
    return tuple(name for name, installed in found.items() if installed and wanted in (None, name))


def compiler() -> str | None:
    """Return what compiles kernels."""
    return next(iter(compilers()), None)


def check(setting: Kernels) -> None:
    """Raise if kernels are demanded where there is no GPU."""
    if setting == "on" and not on_gpu():
        raise RefilError("train.kernels 'on' needs a GPU, and JAX finds none; choose 'auto' or 'off'")


def _unsupported(found: Device) -> str | None:
    if found.vendor != "nvidia":
        return f"{found.kind} is untested"
    return None if found.capability and found.capability >= AMPERE else f"{found.kind} is older than Ampere"


def bfloat16() -> Choice:
    """Return whether matrix products in bfloat16 are faster than in float32 here."""
    if not on_gpu():
        return Choice(False, "no GPU")
    found = device()
    reason = _unsupported(found)
    return Choice(reason is None, reason or NEW_ENOUGH)


@contextmanager
def using_kernels(setting: Kernels) -> Iterator[None]:
    """Decide about kernels in this context, for the duration of a `with` block."""
    token = _here.set(setting)
    try:
        yield
    finally:
        _here.reset(token)


def configure(setting: Kernels) -> None:
    """Decide about kernels in this process, where `using_kernels` does not."""
    _process["kernels"] = setting


def give_up_kernels(reason: str) -> None:
    """Use no kernels in this process any more, because one of them does not compile."""
    _failures.append(reason)
