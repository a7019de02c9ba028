"""Rows of arrays at indices that differ from column to column, which kernels cannot index."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Shaped


@partial(jax.jit, inline=False)
def take_rows(values: Shaped[Array, "rows *columns"], index: Int[Array, "taken *columns"]) -> Shaped[Array, "taken *columns"]:
    """Return `values[index[i, j], j]` for every i and j.

    All rows are compared with the index. Triton has an operation for this, which takes the place of a call of this function when
    a kernel is translated (`refil.kernels.operations.CALLS`).
    """
    rows = jnp.arange(len(values)).reshape(-1, *[1] * values.ndim)
    return jnp.where(index[None] == rows, values[:, None], 0).sum(axis=0).astype(values.dtype)
