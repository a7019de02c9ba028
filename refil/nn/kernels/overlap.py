"""Order of GPU kernels: start the recurrent scan early, so that other kernels run at the same time.

The scan over time is one long kernel that occupies few processors. XLA orders kernels by memory use and would leave it for
the end, where nothing is left to overlap with. Data dependencies without effect on the values make it start first, in the
forward and in the backward pass.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from refil.hardware import on_gpu


def barrier(known: PyTree, values: PyTree) -> PyTree:
    """Return `values` with an added data dependency, so that XLA schedules their consumers after `known` is computed."""
    if not on_gpu():
        return values
    # XLA cannot remove this product, because `known` could be NaN.
    zero = 0 * jax.lax.stop_gradient(jax.tree.leaves(known)[0]).reshape(-1)[0]

    def depend(leaf: Any) -> Any:  # cotangents of integers are not arrays
        return leaf + zero.astype(leaf.dtype) if jnp.issubdtype(leaf.dtype, jnp.inexact) else leaf

    return jax.tree.map(depend, values)


@jax.custom_vjp
def backward_first(first: PyTree, others: PyTree) -> tuple[PyTree, PyTree]:
    """Return both unchanged; in the backward pass, the gradient of `others` waits for the gradient of `first`."""
    return first, others


backward_first.defvjp(
    lambda first, others: ((first, others), None),
    lambda _, gradients: (gradients[0], barrier(*gradients)),
)
