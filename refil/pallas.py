"""Conditions of all Pallas kernels: whether they can run here, and which block sizes they can have."""

import jax

try:
    from jax.experimental.pallas import triton as triton
except ImportError:  # JAX plans to drop this backend; every kernel has an equivalent in plain JAX for that case
    triton = None

MIN_BLOCK = 16  # fewest rows and columns that GPU matrix units multiply


def available() -> bool:
    """Return whether kernels can run: JAX has the Triton backend and runs on a GPU."""
    return triton is not None and jax.default_backend() == "gpu"


def is_power_of_two(size: int) -> bool:
    """Return whether Triton accepts this block size."""
    return size > 0 and size & (size - 1) == 0
