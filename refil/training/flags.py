"""Global settings of JAX and XLA that a run depends on; they take effect only if no JAX program has run yet."""

import os
import platform
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jax._src import xla_bridge
from jax.typing import DTypeLike

from refil import hardware
from refil.errors import RefilError, describe
from refil.hardware import Kernels
from refil.training import cache

Precision = Literal["float32", "tf32", "bf16", "auto"]
MATMUL_PRECISION = {"float32": "highest", "tf32": "tensorfloat32", "bf16": "tensorfloat32", "auto": "tensorfloat32"}
DETERMINISTIC = "--xla_gpu_deterministic_ops=true"
# XLA fuses a multiplication and an addition into one operation (FMA) depending on the program around them, so that a battle
# would round differently alone and in a batch. CPUs limited to AVX have no FMA, at no measurable cost.
NO_FMA = "--xla_cpu_max_isa=AVX"
TOO_LATE = (
    "configure() came after JAX started, so these XLA flags have no effect: {}; call it before the first array is created"
)


def configure(precision: Precision = "float32", deterministic: bool = False, kernels: Kernels = "auto") -> None:
    """Set precision, determinism, GPU kernels, rounding that does not depend on batching, and the compile cache.

    XLA reads its flags when JAX starts. Warn if one of them would have to change after that.
    """
    for name, value, choices in (("precision", precision, get_args(Precision)), ("kernels", kernels, get_args(Kernels))):
        if value not in choices:
            raise RefilError(f"{name} must be one of {', '.join(choices)}, not {describe(value)}")
    _add_xla_flags(*_rounding_flags(), *([DETERMINISTIC] if deterministic else []))
    jax.config.update("jax_default_matmul_precision", MATMUL_PRECISION[precision])
    hardware.configure(kernels)
    cache.enable()


@contextmanager
def computing(precision: Precision, kernels: Kernels = "auto") -> Iterator[None]:
    """Set the precision of matrix products and the use of GPU kernels in this thread, for the duration of a `with` block."""
    with jax.default_matmul_precision(MATMUL_PRECISION[precision]), hardware.using_kernels(kernels):
        yield


def compute_dtype(precision: Precision) -> DTypeLike:
    """Return the dtype of activations."""
    in_bf16 = precision == "bf16" or (precision == "auto" and hardware.bfloat16().yes)
    return jnp.bfloat16 if in_bf16 else jnp.float32


def check(deterministic: bool, kernels: Kernels) -> None:
    """Raise if kernels are wanted without a GPU, or deterministic operations that XLA was not told of before it started."""
    hardware.check(kernels)
    if deterministic and hardware.on_gpu() and DETERMINISTIC not in os.environ.get("XLA_FLAGS", ""):
        raise RefilError("train.deterministic needs refil.configure(deterministic=True) before the first array is created")


def disable_fma() -> None:
    """Make rounding on a CPU independent of the program around an operation, unless the user chose an instruction set."""
    _add_xla_flags(*_rounding_flags())


def effective() -> dict[str, str]:
    """Return what rounding depends on besides the config: devices, the version of JAX, and XLA flags."""
    return {
        "devices": f"{jax.device_count()} {jax.devices()[0].device_kind}",
        "jax": jax.__version__,
        "xla_flags": " ".join(sorted(os.environ.get("XLA_FLAGS", "").split())),
    }


def _rounding_flags() -> list[str]:
    needed = platform.machine() in ("x86_64", "AMD64") and "xla_cpu_max_isa" not in os.environ.get("XLA_FLAGS", "")
    return [NO_FMA] if needed else []


def _add_xla_flags(*flags: str) -> None:
    present = os.environ.get("XLA_FLAGS", "")
    missing = " ".join(flag for flag in flags if flag not in present)
    if missing and xla_bridge.backends_are_initialized():
        warnings.warn(TOO_LATE.format(missing), stacklevel=4)  # of those who call refil.configure
    elif missing:
        os.environ["XLA_FLAGS"] = f"{present} {missing}".strip()
