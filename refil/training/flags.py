"""Global settings of JAX and XLA that a run depends on; they take effect only if no JAX program has run yet."""

import os
import platform
from contextlib import AbstractContextManager
from typing import Literal

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from refil.errors import RefilError
from refil.training import cache

Precision = Literal["float32", "tf32", "bf16", "auto"]
MATMUL_PRECISION = {"float32": "highest", "tf32": "tensorfloat32", "bf16": "tensorfloat32", "auto": "tensorfloat32"}
DETERMINISTIC = "--xla_gpu_deterministic_ops=true"
# XLA fuses a multiplication and an addition into one operation (FMA) depending on the program around them, so that a battle
# would round differently alone and in a batch. CPUs limited to AVX have no FMA, at no measurable cost.
NO_FMA = "--xla_cpu_max_isa=AVX"


def configure(precision: Precision = "float32", deterministic: bool = False) -> None:
    """Set the precision of matrix products, determinism, rounding that does not depend on batching, and the compile cache."""
    disable_fma()
    if deterministic:
        _add_xla_flag(DETERMINISTIC)
    jax.config.update("jax_default_matmul_precision", MATMUL_PRECISION[precision])
    cache.enable()


def matmul_precision(precision: Precision) -> AbstractContextManager[None]:
    """Set the precision of matrix products in this thread, for the duration of a `with` block."""
    return jax.default_matmul_precision(MATMUL_PRECISION[precision])


def compute_dtype(precision: Precision) -> DTypeLike:
    """Return the dtype of activations."""
    in_bf16 = precision == "bf16" or (precision == "auto" and jax.default_backend() == "gpu")
    return jnp.bfloat16 if in_bf16 else jnp.float32


def check_deterministic(wanted: bool) -> None:
    """Raise if deterministic GPU operations are wanted, but XLA was not told so before it started."""
    if wanted and jax.default_backend() == "gpu" and DETERMINISTIC not in os.environ.get("XLA_FLAGS", ""):
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
