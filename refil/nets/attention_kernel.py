"""Gathering what is in view as one GPU kernel forward and one back: `attention.gather` says what is computed.

An instant is small (8 agents, 16 entities), so that batched products and the transposes around them move far more than they
compute. Here a program takes an instant through all heads and views, straight from where the projections lie, and the way
back works the weights out again instead of storing them.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Float

HIDDEN = -1e9  # the logit of an entity out of view: finite, so that a row without any view has finite gradients


def fits(projected: Array, views: Array, size: int, heads: int) -> bool:
    """Whether the kernels can be used: on a GPU, for sizes that its blocks can have."""
    sizes = *views.shape[-2:], size // heads, (projected.shape[-1] - 2 * size) // heads
    return jax.default_backend() == "gpu" and all(size & (size - 1) == 0 for size in sizes)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4, 5))
def gather(
    projected: Float[Array, "instants entities columns"],
    views: Bool[Array, "views instants agents entities"],
    size: int,
    heads: int,
    summed: bool,
    interpret: bool,
) -> Float[Array, "views instants agents outputs"]:
    """`attention.gather`, for one axis of instants."""
    count, instants, agents, _ = views.shape
    columns = projected.shape[-1] - 2 * size
    outputs = columns // heads if summed else columns
    return pl.pallas_call(
        partial(gather_instant, Heads(size, columns, heads, agents), summed),
        out_shape=jax.ShapeDtypeStruct((count, instants, agents, outputs), projected.dtype),
        grid=(instants,),
        in_specs=[of_instant(projected), of_views(views)],
        out_specs=pl.BlockSpec((count, None, agents, outputs), lambda i: (0, i, 0, 0)),
        compiler_params=warps(views, size // heads),
        interpret=interpret,
    )(projected, views.astype(jnp.int8))


def warps(views: Array, width: int) -> triton.CompilerParams:
    """As many as give each thread 32 products of a head (fewer wait for each other, more cannot hold them)."""
    products = math.prod(views.shape[-2:]) * width
    return triton.CompilerParams(num_warps=max(1, min(8, products // 1024)))


def of_instant(rows: Array) -> pl.BlockSpec:
    """One instant's rows."""
    return pl.BlockSpec((None, *rows.shape[1:]), lambda i: (i, 0, 0))


def of_views(views: Array) -> pl.BlockSpec:
    """One instant's rows in all views."""
    return pl.BlockSpec((views.shape[0], None, *views.shape[2:]), lambda i: (0, i, 0, 0))


def gather_forward(
    projected: Array, views: Array, size: int, heads: int, summed: bool, interpret: bool
) -> tuple[Array, tuple[Array, Array]]:
    """What is gathered, and what its gradient needs: no more than what it was gathered from."""
    return gather(projected, views, size, heads, summed, interpret), (projected, views)


def gather_backward(
    size: int, heads: int, summed: bool, interpret: bool, kept: tuple[Array, Array], gradient: Array
) -> tuple[Array, None]:
    """The projections' gradient."""
    projected, views = kept
    by_projected = pl.pallas_call(
        partial(gather_instant_back, Heads(size, projected.shape[-1] - 2 * size, heads, views.shape[2]), summed),
        out_shape=jax.ShapeDtypeStruct(projected.shape, projected.dtype),
        grid=(len(projected),),
        in_specs=[of_instant(projected), of_views(views), of_views(gradient)],
        out_specs=of_instant(projected),
        compiler_params=warps(views, size // heads),
        interpret=interpret,
    )(projected, views.astype(jnp.int8), gradient)
    return by_projected, None


gather.defvjp(gather_forward, gather_backward)


class Heads(NamedTuple):
    """Where in the columns of a projection each head's part lies."""

    size: int
    columns: int
    count: int
    agents: int

    def queries(self, head: int) -> tuple[pl.Slice, pl.Slice]:
        """Only agents ask."""
        return pl.ds(0, self.agents), pl.ds(head * self.width, self.width)

    def keys(self, head: int) -> tuple[slice, pl.Slice]:
        """Of all entities."""
        return slice(None), pl.ds(self.size + head * self.width, self.width)

    def gains(self, head: int) -> tuple[slice, pl.Slice]:
        """Of all entities."""
        return slice(None), pl.ds(2 * self.size + head * self.gained, self.gained)

    def outputs(self, head: int) -> pl.Slice:
        """Columns of what is gathered, where heads lie side by side."""
        return pl.ds(head * self.gained, self.gained)

    @property
    def width(self) -> int:
        """Columns of a head's queries."""
        return self.size // self.count

    @property
    def gained(self) -> int:
        """Columns of a head's gains."""
        return self.columns // self.count


def heed(queries: Array, keys: Array) -> Array:
    """How much each agent heeds each entity, before any view."""
    return (queries[:, None, :] * keys[None, :, :]).sum(axis=-1) * queries.shape[-1] ** -0.5


def shares(logits: Array, seen: Array) -> Array:
    """The same as shares among what is in view; all are 0 where nothing is."""
    exponents = jnp.where(seen, logits, HIDDEN)
    weights = jnp.exp(exponents - exponents.max(axis=-1, keepdims=True))
    return jnp.where(seen, weights / weights.sum(axis=-1, keepdims=True), 0.0)


def gather_instant(heads: Heads, summed: bool, projected_ref, views_ref, gathered_ref) -> None:
    """One instant."""
    views = range(len(views_ref))
    seen = [views_ref[view] != 0 for view in views]
    totals = [0.0 for _ in views]
    for head in range(heads.count):
        logits = heed(projected_ref[heads.queries(head)], projected_ref[heads.keys(head)])
        gains = projected_ref[heads.gains(head)]
        for view in views:
            gathered = (shares(logits, seen[view])[:, :, None] * gains[None, :, :]).sum(axis=1)
            if summed:
                totals[view] += gathered
            else:
                gathered_ref[view, :, heads.outputs(head)] = gathered
    if summed:
        for view in views:
            gathered_ref[view] = totals[view]


def gather_instant_back(heads: Heads, summed: bool, projected_ref, views_ref, gradient_ref, by_projected_ref) -> None:
    """One instant's gradient. Entities that are no agents ask nothing: their queries' gradient is 0."""
    views = range(len(views_ref))
    seen = [views_ref[view] != 0 for view in views]
    for head in range(heads.count):
        parts = heads.queries(head), heads.keys(head), heads.gains(head)
        queries, keys, gains = (projected_ref[part] for part in parts)
        logits = heed(queries, keys)
        by_logits, by_gains = jnp.zeros_like(logits), jnp.zeros_like(gains)
        for view in views:
            gradient = gradient_ref[view] if summed else gradient_ref[view, :, heads.outputs(head)]
            weights = shares(logits, seen[view])
            by_weights = (gradient[:, None, :] * gains[None, :, :]).sum(axis=-1)
            by_gains += (weights[:, :, None] * gradient[:, None, :]).sum(axis=0)
            by_logits += weights * (by_weights - (weights * by_weights).sum(axis=-1, keepdims=True))
        by_logits *= heads.width**-0.5
        by_projected_ref[parts[0]] = (by_logits[:, :, None] * keys[None, :, :]).sum(axis=1)
        by_projected_ref[parts[1]] = (by_logits[:, :, None] * queries[:, None, :]).sum(axis=0)
        by_projected_ref[parts[2]] = by_gains
        for others in blocks(heads.agents, projected_ref.shape[0]):
            by_projected_ref[others, parts[0][1]] = jnp.zeros((others.size, heads.width), by_gains.dtype)


def blocks(start: int, end: int) -> list[pl.Slice]:
    """The rows from start to end in blocks whose sizes are powers of two."""
    found = []
    while start < end:
        size = 1 << ((end - start).bit_length() - 1)
        found.append(pl.ds(start, size))
        start += size
    return found
