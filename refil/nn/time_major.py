"""Time-major arrays for recurrent networks, from padded or packed batches and back.

Packing places episodes one after another in a single row of timesteps. Recurrent networks need rows of time instead; the
`PackIndex` of a batch says where each packed timestep lies in these rows.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from refil.types import PackIndex

TIME_AXIS = 2  # arrays are [views, batch, time, ...]


def to_time_major(index: PackIndex | None, leaf: Array) -> Array:
    """Turn `[views, batch, time, ...]` into `[time, views, rows, ...]`; positions without a timestep are zero."""
    if index is None:
        return jnp.moveaxis(leaf, TIME_AXIS, 0)
    packed = jnp.moveaxis(leaf, TIME_AXIS, 0).squeeze(TIME_AXIS)  # [packed timesteps, views, ...]
    positions, sources = _both_ways(index.position[0], index.rows * index.timesteps)
    rows = _permute(packed, sources, positions)
    return jnp.moveaxis(rows.reshape(index.timesteps, index.rows, *rows.shape[1:]), 1, TIME_AXIS)


def from_time_major(index: PackIndex | None, leaf: Array) -> Array:
    """Invert `to_time_major`."""
    if index is None:
        return jnp.moveaxis(leaf, 0, TIME_AXIS)
    rows = jnp.moveaxis(leaf, TIME_AXIS, 1)
    rows = rows.reshape(index.timesteps * index.rows, *rows.shape[2:])
    packed = _permute(rows, *_both_ways(index.position[0], len(rows)))
    return jnp.expand_dims(jnp.moveaxis(packed, 0, TIME_AXIS - 1), TIME_AXIS - 1)


def _both_ways(position: Int[Array, " packed"], size: int) -> tuple[Int[Array, " packed"], Int[Array, " positions"]]:
    """Return the position of each packed timestep and the timestep at each position; out of range at unused positions."""
    return position, jnp.full((size,), len(position)).at[position].set(jnp.arange(len(position)), mode="drop")


@jax.custom_vjp
def _permute(rows: Array, source: Int[Array, " to"], inverse: Int[Array, " from"]) -> Array:
    """Return the rows named by `source`, zero where it is out of range.

    The gradient gathers through `inverse`: a scatter-add would have no fixed order of summation.
    """
    return jnp.take(rows, source, axis=0, mode="fill", fill_value=0)


_permute.defvjp(
    lambda rows, source, inverse: (_permute(rows, source, inverse), (source, inverse)),
    lambda saved, gradient: (_permute(gradient, *saved[::-1]), None, None),
)
