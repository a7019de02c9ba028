"""Global settings of JAX and XLA that a run depends on; they take effect only if no JAX program has run yet."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from refil import hardware
from refil.errors import RefilError
from refil.hardware import Kernels
from refil.training import cache

Precision = Literal["float32", "tf32", "bf16", "auto"]
MATMUL_PRECISION = {"float32": "highest", "tf32": "tensorfloat32", "bf16": "tensorfloat32", "auto": "tensorfloat32"}
DETERMINISTIC = "--xla_gpu_deterministic_ops=true"
# XLA fuses a multiplication and an addition into one operation (FMA) depending on the program around them, so that a battle
# would round differently alone and in a batch. CPUs limited to AVX have no FMA, at no measurable cost.
NO_FMA = "--xla_cpu_max_isa=AVX"


def configure(precision: Precision = "float32", deterministic: bool = False, kernels: Kernels = "auto") -> None:
    """Set precision, determinism, GPU kernels, rounding that does not depend on batching, and the compile cache."""
    disable_fma()
    if deterministic:
        _add_xla_flag(DETERMINISTIC)
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
    if platform.machine() in ("x86_64", "AMD64") and "xla_cpu_max_isa" not in os.environ.get("XLA_FLAGS", ""):
        _add_xla_flag(NO_FMA)


def effective() -> dict[str, str]:
    """Return what rounding depends on besides the config: devices, the version of JAX, and XLA flags."""
    return {
        "devices": f"{jax.device_count()} {jax.devices()[0].device_kind}",
        "jax": jax.__version__,
        "xla_flags": " ".join(sorted(os.environ.get("XLA_FLAGS", "").split())),
    }


def _add_xla_flag(flag: str) -> None:
    flags = os.environ.get("XLA_FLAGS", "")
    if flag not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {flag}".strip()
