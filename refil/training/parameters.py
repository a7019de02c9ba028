"""The parameters of a model as one vector, and the clipping of their gradient: shared by all algorithms."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import PyTreeDef
from jaxtyping import Array, Float, PyTree


@dataclass(frozen=True)
class ParameterLayout:
    """The arrays of a model as one vector: a GPU takes about as long for each of many small arrays as for one large one."""

    structure: PyTreeDef  # pyright: ignore[reportInvalidTypeForm] (JAX defines this class as a variable)
    shapes: tuple[tuple[int, ...], ...]

    def ravel(self, model: Any) -> Float[Array, " parameters"]:
        """Concatenate all arrays of a model."""
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(model)])

    def unravel(self, vector: Float[Array, "*seeds parameters"]) -> Any:
        """Return the model that a vector holds."""
        ends = itertools.accumulate(math.prod(shape) for shape in self.shapes)
        parts = jnp.split(vector, list(ends)[:-1], axis=-1)
        leaves = [part.reshape(*vector.shape[:-1], *shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)


def parameter_layout(model: Any) -> ParameterLayout:
    """Return the layout of a model's arrays in a vector."""
    return ParameterLayout(jax.tree.structure(model), tuple(leaf.shape for leaf in jax.tree.leaves(model)))


def clip_by_norm(max_norm: float) -> optax.GradientTransformation:
    """Scale gradients down to a joint norm of at most `max_norm`, with PyTorch's small constant."""

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
        scale = jnp.minimum(1.0, max_norm / (optax.tree.norm(updates) + 1e-6))
        return jax.tree.map(lambda leaf: leaf * scale, updates), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)
