"""Rows of time for recurrent networks, from packed batches and back.

Packing places episodes one after another in a single row of timesteps. Recurrent networks need rows of time instead; the
`PackIndex` of a batch says where each packed timestep lies in these rows.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from refil.types import PackIndex


def to_time_major(index: PackIndex | None, leaf: Array) -> Array:
    """Turn `[views, 1, packed timesteps, ...]` into `[views, time, rows, ...]`; positions without a timestep are zero.

    Without an index nothing is packed, and the array has rows already.
    """
    if index is None:
        return leaf
    positions, sources = _both_ways(index.position[0], index.rows * index.timesteps)
    rows = _permute(leaf.squeeze(1), sources, positions)
    return rows.reshape(len(leaf), index.timesteps, index.rows, *leaf.shape[3:])


def from_time_major(index: PackIndex | None, leaf: Array) -> Array:
    """Invert `to_time_major`."""
    if index is None:
        return leaf
    rows = leaf.reshape(len(leaf), index.timesteps * index.rows, *leaf.shape[3:])
    return _permute(rows, *_both_ways(index.position[0], rows.shape[1]))[:, None]


def _both_ways(position: Int[Array, " packed"], size: int) -> tuple[Int[Array, " packed"], Int[Array, " positions"]]:
    """Return the position of each packed timestep and the timestep at each position; out of range at unused positions."""
    return position, jnp.full((size,), len(position)).at[position].set(jnp.arange(len(position)), mode="drop")


@jax.custom_vjp
def _permute(rows: Array, source: Int[Array, " to"], inverse: Int[Array, " from"]) -> Array:
    """Return the entries of the second axis that `source` names, zero where it is out of range.

    The gradient gathers through `inverse`: a scatter-add would have no fixed order of summation.
    """
    return jnp.take(rows, source, axis=1, mode="fill", fill_value=0)


_permute.defvjp(
    lambda rows, source, inverse: (_permute(rows, source, inverse), (source, inverse)),
    lambda saved, gradient: (_permute(gradient, *saved[::-1]), None, None),
)
