"""Rows of arrays at indices that differ from column to column, which kernels cannot index."""

import jax
import jax.numpy as jnp


def take_rows(values: jax.Array, index: jax.Array) -> jax.Array:
    """Return `values[index[i, j], j]` for every i and j; booleans are gathered as numbers."""
    numbers = values.astype(jnp.int32) if values.dtype == jnp.bool_ else values
    return gather_rows(numbers, index).astype(values.dtype)


@jax.jit
def gather_rows(values: jax.Array, index: jax.Array) -> jax.Array:
    """Return `values[index[i, j], j]`, by comparing the index with all rows.

    Triton has an operation for this. It takes the place of this function when a kernel is translated
    (`refil.kernels.operations.CALLS`).
    """
    rows = jnp.arange(len(values)).reshape(-1, *[1] * values.ndim)
    return jnp.where(index[None] == rows, values[:, None], 0).sum(axis=0)
