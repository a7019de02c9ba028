"""What a GPU is to begin with.

A recurrent unit goes through time in one long kernel that keeps few processors busy. XLA orders kernels by the memory they
need, and leaves that one for the end, where nothing is left to run beside it. Here numbers are made to wait for others that
they do not depend on, so that it is begun first, forward and back, and all else runs beside it.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


def waits() -> bool:
    """Whether kernels run side by side at all."""
    return jax.default_backend() == "gpu"


def after(known: Array, numbers: PyTree) -> PyTree:
    """The same numbers, with which nothing can be begun before these are known."""
    if not waits():
        return numbers
    nothing = 0 * jax.lax.stop_gradient(known).reshape(-1)[0]  # XLA must not leave it out: it could be no number

    def later(leaf: Any) -> Any:  # what is not differentiable has a gradient that is no array
        return leaf + nothing.astype(leaf.dtype) if jnp.issubdtype(leaf.dtype, jnp.inexact) else leaf

    return jax.tree.map(later, numbers)


@jax.custom_vjp
def last_to_go_back(first: Array, others: PyTree) -> tuple[Array, PyTree]:
    """Both as they are; on the way back, nothing is begun with the others' gradient before the first one's is known."""
    return first, others


last_to_go_back.defvjp(
    lambda first, others: ((first, others), None),
    lambda _, gradients: (gradients[0], after(*gradients)),
)
