"""What all kernels have in common: whether they can be used at all, and what sizes their blocks can have."""

import jax

try:
    from jax.experimental.pallas import triton as triton
except ImportError:  # JAX means to give it up; every kernel has a plain version for that day
    triton = None

LEAST = 16  # the fewest rows and columns that the matrix units take


def available() -> bool:
    """Whether this machine can run kernels."""
    return triton is not None and jax.default_backend() == "gpu"


def power_of_two(size: int) -> bool:
    """Whether a block can have this size."""
    return size > 0 and size & (size - 1) == 0
