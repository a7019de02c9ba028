"""Tracing of users' functions: the shapes of what they return, and comparisons of shapes in words."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from refil.errors import RefilError, user_code
from refil.training.contracts.plugin import kind

KINDS = {
    jnp.bool_: "bool",
    jnp.integer: "an integer type",
    jnp.floating: "a floating-point type",
    jnp.number: "a number type",
}
Axes = tuple[tuple[str, int], ...]  # names and sizes


def trace(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns, with shapes in place of arrays; nothing is computed."""

    def checked(*arguments: Any) -> Any:
        result = function(*arguments)
        for path, leaf in jax.tree_util.tree_leaves_with_path(result):
            if not _is_array(leaf):
                raise RefilError(f"{what} returned {kind(leaf)}{_inside(path)}; JAX needs arrays there")
        return result

    with user_code(what):
        return jax.eval_shape(checked, *arguments)


def shapes(tree: PyTree, *leading: int) -> PyTree:
    """Return the shapes of arrays, with more leading axes."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((*leading, *jnp.shape(leaf)), jnp.result_type(leaf)), tree)


def key_shape() -> Any:
    """Return the shape of a random key."""
    return jax.eval_shape(lambda: jax.random.key(0))


def difference(ours: PyTree, theirs: PyTree) -> str | None:
    """Say in words where two pytrees differ in structure, shape or type: "float32 (3,) in .x instead of int32 (3,)"."""
    if jax.tree.structure(ours) != jax.tree.structure(theirs):
        return f"{_structure(ours)} instead of {_structure(theirs)}"
    for (path, one), other in zip(jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(theirs), strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return f"{one.dtype} {one.shape}{_inside(path)} instead of {other.dtype} {other.shape}"
    return None


def check_array(what: str, leaf: Any, axes: Axes, dtype: Any) -> None:
    """Raise unless an array has these axes, whose sizes are those of the spec, and this kind of numbers."""
    expected = tuple(size for _, size in axes)
    if len(leaf.shape) != len(expected):
        wanted = f"[{', '.join(name for name, _ in axes)}] = {expected}" if axes else "a scalar"
        raise RefilError(f"{what} with shape {leaf.shape}; it must be {wanted}")
    for (axis, size), found in zip(axes, leaf.shape, strict=True):
        if found != size:
            raise RefilError(f"{what} for {found} {axis}, spec.{axis} is {size}")
    if not jnp.issubdtype(leaf.dtype, dtype):
        raise RefilError(f"{what} of type {leaf.dtype}; it must be of {KINDS[dtype]}")


def _is_array(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind in "biufc"
    return isinstance(leaf, jax.Array | np.generic | bool | int | float | complex)


def _inside(path: Any) -> str:
    return f" in {jax.tree_util.keystr(path)}" if path else ""


def _structure(tree: PyTree) -> str:
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    return f"{kind(tree)} with {len(names)} array{'s' * (len(names) != 1)} ({', '.join(names[:6])}{', ...' * (len(names) > 6)})"
