"""Attention through several views as one GPU kernel forward and one backward. `refil.nn.attention` defines what they compute.

One timestep is small (8 agents, 16 entities): batched matrix products and the transposes around them would move far more data
than they compute with. Here one program of the kernel takes one timestep, or a few small ones stacked, through all heads and
views, and reads the projections where they lie. The backward kernel recomputes the attention weights instead of storing them.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Float, Int, Int8

from refil.hardware import kernels
from refil.kernels.call import kernel_call, load, store
from refil.kernels.program import Options
from refil.nn.kernels.blocks import MIN_BLOCK, is_power_of_two
from refil.nn.layers import masked_softmax


def fits(views: Array, size: int, heads: int, value_dim: int) -> bool:
    """Return whether the kernels support these sizes and can run here."""
    width = size // heads
    blocks = all(map(is_power_of_two, (views.shape[-1], width, value_dim)))
    return kernels().yes and blocks and width >= MIN_BLOCK and (value_dim >= MIN_BLOCK or value_dim == 1)


class _Plan(NamedTuple):
    """The number of timesteps that a program takes, and the places of their parts in its rows and columns."""

    timesteps: int
    agents: int
    entities: int
    size: int
    heads: int
    value_dim: int
    sum_heads: bool

    @property
    def rows(self) -> int:
        return self.timesteps * self.entities

    @property
    def outputs(self) -> int:
        return self.value_dim if self.sum_heads else self.value_dim * self.heads

    def columns(self, part: int, head: Int[Array, ""]) -> pl.Slice | slice:
        """Return the columns of a head's queries (part 0), keys (1) or values (2)."""
        width = self.value_dim if part == 2 else self.size // self.heads
        return pl.ds(part * self.size + head * width, width)

    def agent_rows(self, ref, view: int, head: Int[Array, ""] | int):
        """Return each row's place in an output of agents only, for one view and head, and the mask of rows that are agents."""
        row, column = jnp.arange(self.rows), jnp.arange(self.value_dim)
        place = row // self.entities * self.agents + row % self.entities
        first_column = 0 if self.sum_heads else head * self.value_dim
        is_agent = jnp.broadcast_to((row % self.entities < self.agents)[:, None], (self.rows, self.value_dim))
        return ref.at[view, place[:, None], first_column + column[None, :]], is_agent


def _plan(views: Array, size: int, heads: int, value_dim: int, sum_heads: bool) -> _Plan:
    agents, entities = views.shape[-2:]
    timesteps = max(1, MIN_BLOCK // entities)  # enough to fill the matrix units
    return _Plan(timesteps, agents, entities, size, heads, value_dim, sum_heads)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4, 5, 6))
@partial(jax.jit, static_argnums=(2, 3, 4, 5, 6))  # so that layers of the same size are lowered to one kernel
def attend(
    projections: Float[Array, "timesteps entities columns"],
    views: Bool[Array, "views timesteps agents entities"],
    size: int,
    heads: int,
    value_dim: int,
    sum_heads: bool,
    interpret: bool,
) -> Float[Array, "views timesteps agents outputs"]:
    """Compute `refil.nn.attention.attend` for a single batch axis; `interpret` runs the kernel on a CPU, for tests."""
    plan = _plan(views, size, heads, value_dim, sum_heads)
    rows, masks = _stack_timesteps(projections, plan), _block_masks(views, plan)
    attended = kernel_call(
        partial(_attend_program, plan),
        out_shape=jax.ShapeDtypeStruct((len(views), len(rows), plan.timesteps * plan.agents, plan.outputs), projections.dtype),
        grid=(len(rows),),
        in_specs=[_program_spec(rows), _views_spec(masks)],
        out_specs=pl.BlockSpec((len(views), None, plan.timesteps * plan.agents, plan.outputs), lambda i: (0, i, 0, 0)),
        options=Options(num_warps=_num_warps(plan), interpret=interpret),
    )(rows, masks)
    return attended.reshape(len(views), -1, plan.agents, plan.outputs)[:, : views.shape[1]]


def _attend_fwd(
    projections: Array, views: Array, size: int, heads: int, value_dim: int, sum_heads: bool, interpret: bool
) -> tuple[Array, tuple[Array, Array]]:
    return attend(projections, views, size, heads, value_dim, sum_heads, interpret), (projections, views)


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _attend_bwd(
    size: int, heads: int, value_dim: int, sum_heads: bool, interpret: bool, residuals: tuple[Array, Array], gradient: Array
) -> tuple[Array, None]:
    projections, views = residuals
    plan = _plan(views, size, heads, value_dim, sum_heads)
    rows, masks = _stack_timesteps(projections, plan), _block_masks(views, plan)
    gradients = jax.vmap(partial(_stack_timesteps, plan=plan))(gradient)
    rows_grad = kernel_call(
        partial(_backward_program, plan),
        out_shape=jax.ShapeDtypeStruct(rows.shape, rows.dtype),
        grid=(len(rows),),
        in_specs=[_program_spec(rows), _views_spec(masks), _views_spec(gradients)],
        out_specs=_program_spec(rows),
        # In float32, the registers of a single warp would overflow.
        options=Options(num_warps=_num_warps(plan, least=2 if rows.dtype == jnp.float32 else 1), interpret=interpret),
    )(rows, masks, gradients)
    return rows_grad.reshape(-1, *projections.shape[1:])[: len(projections)], None


attend.defvjp(_attend_fwd, _attend_bwd)


def _stack_timesteps(rows: Float[Array, "timesteps rows columns"], plan: _Plan) -> Float[Array, "programs stacked columns"]:
    """Stack the rows of each program's timesteps; the last program is padded with zeros."""
    padded = jnp.pad(rows, [(0, -len(rows) % plan.timesteps), (0, 0), (0, 0)])
    return padded.reshape(-1, plan.timesteps * rows.shape[1], rows.shape[2])


def _block_masks(
    views: Bool[Array, "views timesteps agents entities"], plan: _Plan
) -> Int8[Array, "views programs stacked stacked"]:
    """Return masks between all rows of a program: false across timesteps, and for rows that are not agents."""
    padding = [(0, 0), (0, -views.shape[1] % plan.timesteps), (0, plan.entities - plan.agents), (0, 0)]
    masks = jnp.pad(views, padding).reshape(len(views), -1, plan.timesteps, plan.entities, 1, plan.entities)
    same_timestep = jnp.eye(plan.timesteps, dtype=bool)[:, None, :, None]
    return (masks & same_timestep).reshape(len(views), -1, plan.rows, plan.rows).astype(jnp.int8)


def _num_warps(plan: _Plan, least: int = 1) -> int:
    # One warp for each 16 rows: a warp's matrix unit does not take fewer.
    return min(8, max(least, plan.rows // MIN_BLOCK))


def _program_spec(rows: Array) -> pl.BlockSpec:
    return pl.BlockSpec((None, *rows.shape[1:]), lambda i: (i, 0, 0))


def _views_spec(rows: Array) -> pl.BlockSpec:
    return pl.BlockSpec((len(rows), None, *rows.shape[2:]), lambda i: (0, i, 0, 0))


def _dot(left: Array, right: Array) -> Array:
    """Return left @ right in float32, also where an axis has length 1, which the matrix units do not support."""
    if left.shape[1] > 1 and right.shape[1] > 1:
        return jnp.dot(left, right, preferred_element_type=jnp.float32)
    left, right = left.astype(jnp.float32), right.astype(jnp.float32)
    return left * right if left.shape[1] == 1 else (left * right.T).sum(axis=1, keepdims=True)


def _attend_program(plan: _Plan, rows_ref, masks_ref, attended_ref) -> None:
    views = range(len(masks_ref))
    masks = [masks_ref[view] != 0 for view in views]

    def write(view: int, head: Int[Array, ""] | int, values: Array) -> None:
        place, is_agent = plan.agent_rows(attended_ref, view, head)
        store(place, values.astype(attended_ref.dtype), mask=is_agent)

    def add_head(head: Int[Array, ""], totals: list[Array]) -> list[Array]:
        queries, keys, values = (rows_ref[:, plan.columns(part, head)] for part in range(3))
        logits = _dot(queries, keys.T) * queries.shape[1] ** -0.5
        attended = [_dot(masked_softmax(logits, mask).astype(values.dtype), values) for mask in masks]
        if plan.sum_heads:
            return [total + each for total, each in zip(totals, attended, strict=True)]
        for view in views:
            write(view, head, attended[view])
        return totals

    zeros = [jnp.zeros((plan.rows, plan.value_dim)) for _ in views if plan.sum_heads]
    totals = jax.lax.fori_loop(0, plan.heads, add_head, zeros)  # unrolled heads would overflow the registers
    for view, total in enumerate(totals):
        write(view, 0, total)


def _backward_program(plan: _Plan, rows_ref, masks_ref, gradient_ref, rows_grad_ref) -> None:
    # Rows that are not agents have nothing in view, so the gradient of their queries is 0.
    views = range(len(masks_ref))
    masks = [masks_ref[view] != 0 for view in views]

    def head_backward(head: Int[Array, ""], _: None) -> None:
        queries, keys, values = (rows_ref[:, plan.columns(part, head)] for part in range(3))
        scale = queries.shape[1] ** -0.5
        logits = _dot(queries, keys.T) * scale
        logits_grad, values_grad = jnp.zeros_like(logits), jnp.zeros(values.shape)
        for view in views:
            place, is_agent = plan.agent_rows(gradient_ref, view, head)
            gradient = load(place, mask=is_agent, other=0)
            weights = masked_softmax(logits, masks[view])
            weights_grad = _dot(gradient, values.T)
            values_grad += _dot(weights.T.astype(values.dtype), gradient)
            logits_grad += weights * (weights_grad - (weights * weights_grad).sum(axis=-1, keepdims=True))
        logits_grad = (logits_grad * scale).astype(keys.dtype)
        parts = _dot(logits_grad, keys), _dot(logits_grad.T, queries), values_grad
        for number, part in enumerate(parts):
            rows_grad_ref[:, plan.columns(number, head)] = part.astype(rows_grad_ref.dtype)

    jax.lax.fori_loop(0, plan.heads, head_backward, None)
    for column in range(2 * plan.size + plan.heads * plan.value_dim, rows_grad_ref.shape[1]):  # padding
        rows_grad_ref[:, column] = jnp.zeros(plan.rows, rows_grad_ref.dtype)
