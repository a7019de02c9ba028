"""Gathering what is in view as one GPU kernel forward and one back: `attention.gather` says what is computed.

An instant is small (8 agents, 16 entities), so that batched products and the transposes around them move far more than they
compute. Here a program takes one instant, or a few small ones side by side, through all heads and views, straight from where
the projections lie; the way back works the weights out again instead of storing them.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Float, Int, Int8

from refil.nn.kernels.pallas import LEAST, available, power_of_two, triton
from refil.nn.softmax import shares


def fits(views: Array, size: int, heads: int, gained: int) -> bool:
    """Whether the kernels can be used for these sizes."""
    width = size // heads
    blocks = all(map(power_of_two, (views.shape[-1], width, gained)))
    return available() and blocks and width >= LEAST and (gained >= LEAST or gained == 1)


class Plan(NamedTuple):
    """How many instants a program takes, and where in their rows and columns each part lies."""

    together: int
    agents: int
    entities: int
    size: int
    heads: int
    gained: int
    summed: bool

    @property
    def rows(self) -> int:
        """Of a program."""
        return self.together * self.entities

    @property
    def outputs(self) -> int:
        """Columns of what is gathered."""
        return self.gained if self.summed else self.gained * self.heads

    def columns(self, part: int, head: Int[Array, ""]) -> pl.Slice:
        """Of a head's queries (part 0), keys (1) or gains (2)."""
        width = self.gained if part == 2 else self.size // self.heads
        return pl.ds(part * self.size + head * width, width)

    def agents_rows(self, ref, view: int, head: Int[Array, ""] | int):
        """Where a head's gains through a view are or go, for each row of a program; and which rows are agents with gains."""
        row, column = jnp.arange(self.rows), jnp.arange(self.gained)
        place, first = row // self.entities * self.agents + row % self.entities, 0 if self.summed else head * self.gained
        acting = jnp.broadcast_to((row % self.entities < self.agents)[:, None], (self.rows, self.gained))
        return ref.at[view, place[:, None], first + column[None, :]], acting


def planned(views: Array, size: int, heads: int, gained: int, summed: bool) -> Plan:
    """Enough instants to fill the matrix units."""
    agents, entities = views.shape[-2:]
    return Plan(max(1, LEAST // entities), agents, entities, size, heads, gained, summed)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4, 5, 6))
@partial(jax.jit, static_argnums=(2, 3, 4, 5, 6))  # so that layers of one size are written as a kernel once
def gather(
    projected: Float[Array, "instants entities columns"],
    views: Bool[Array, "views instants agents entities"],
    size: int,
    heads: int,
    gained: int,
    summed: bool,
    interpret: bool,
) -> Float[Array, "views instants agents outputs"]:
    """`attention.gather`, for one axis of instants."""
    plan = planned(views, size, heads, gained, summed)
    rows, seen = in_programs(projected, plan), in_view(views, plan)
    gathered = pl.pallas_call(
        partial(gather_program, plan),
        out_shape=jax.ShapeDtypeStruct((len(views), len(rows), plan.together * plan.agents, plan.outputs), projected.dtype),
        grid=(len(rows),),
        in_specs=[of_program(rows), of_views(seen)],
        out_specs=pl.BlockSpec((len(views), None, plan.together * plan.agents, plan.outputs), lambda i: (0, i, 0, 0)),
        compiler_params=warps(plan),
        interpret=interpret,
    )(rows, seen)
    return gathered.reshape(len(views), -1, plan.agents, plan.outputs)[:, : views.shape[1]]


def gather_forward(
    projected: Array, views: Array, size: int, heads: int, gained: int, summed: bool, interpret: bool
) -> tuple[Array, tuple[Array, Array]]:
    """What is gathered, and what its gradient needs: no more than what it was gathered from."""
    return gather(projected, views, size, heads, gained, summed, interpret), (projected, views)


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def gather_backward(
    size: int, heads: int, gained: int, summed: bool, interpret: bool, kept: tuple[Array, Array], gradient: Array
) -> tuple[Array, None]:
    """The projections' gradient."""
    projected, views = kept
    plan = planned(views, size, heads, gained, summed)
    rows, seen = in_programs(projected, plan), in_view(views, plan)
    wanted = jax.vmap(partial(in_programs, plan=plan))(gradient)
    by_rows = pl.pallas_call(
        partial(gather_program_back, plan),
        out_shape=jax.ShapeDtypeStruct(rows.shape, rows.dtype),
        grid=(len(rows),),
        in_specs=[of_program(rows), of_views(seen), of_views(wanted)],
        out_specs=of_program(rows),
        compiler_params=warps(plan, at_least=2 if rows.dtype == jnp.float32 else 1),  # float32 overflows one's registers
        interpret=interpret,
    )(rows, seen, wanted)
    return by_rows.reshape(-1, *projected.shape[1:])[: len(projected)], None


gather.defvjp(gather_forward, gather_backward)


def in_programs(rows: Float[Array, "instants rows columns"], plan: Plan) -> Float[Array, "programs together columns"]:
    """Instants that a program takes together, one under another; the last may want some more."""
    padded = jnp.pad(rows, [(0, -len(rows) % plan.together), (0, 0), (0, 0)])
    return padded.reshape(-1, plan.together * rows.shape[1], rows.shape[2])


def in_view(
    views: Bool[Array, "views instants agents entities"], plan: Plan
) -> Int8[Array, "views programs together_entities together_entities"]:
    """Who sees whom among all rows of a program: nobody sees another instant, and only agents see."""
    padding = [(0, 0), (0, -views.shape[1] % plan.together), (0, plan.entities - plan.agents), (0, 0)]
    seen = jnp.pad(views, padding).reshape(len(views), -1, plan.together, plan.entities, 1, plan.entities)
    same = jnp.eye(plan.together, dtype=bool)[:, None, :, None]
    return (seen & same).reshape(len(views), -1, plan.rows, plan.rows).astype(jnp.int8)


def warps(plan: Plan, at_least: int = 1) -> "triton.CompilerParams":
    """One for each 16 rows: fewer rows cannot be shared out among the matrix units."""
    return triton.CompilerParams(num_warps=min(8, max(at_least, plan.rows // LEAST)))


def of_program(rows: Array) -> pl.BlockSpec:
    """A program's rows."""
    return pl.BlockSpec((None, *rows.shape[1:]), lambda i: (i, 0, 0))


def of_views(rows: Array) -> pl.BlockSpec:
    """A program's rows in all views."""
    return pl.BlockSpec((len(rows), None, *rows.shape[2:]), lambda i: (0, i, 0, 0))


def product(left: Array, right: Array) -> Array:
    """left @ right in float32, also where what the matrix units cannot take is one wide."""
    if left.shape[1] > 1 and right.shape[1] > 1:
        return jnp.dot(left, right, preferred_element_type=jnp.float32)
    left, right = left.astype(jnp.float32), right.astype(jnp.float32)
    return left * right if left.shape[1] == 1 else (left * right.T).sum(axis=1, keepdims=True)


def gather_program(plan: Plan, rows_ref, seen_ref, gathered_ref) -> None:
    """A program's instants."""
    views = range(len(seen_ref))
    seen = [seen_ref[view] != 0 for view in views]

    def write(view: int, head: Int[Array, ""] | int, values: Array) -> None:
        where, acting = plan.agents_rows(gathered_ref, view, head)
        triton.store(where, values.astype(gathered_ref.dtype), mask=acting)

    def add_head(head: Int[Array, ""], totals: list[Array]) -> list[Array]:
        queries, keys, gains = (rows_ref[:, plan.columns(part, head)] for part in range(3))
        logits = product(queries, keys.T) * queries.shape[1] ** -0.5
        gathered = [product(shares(logits, each).astype(gains.dtype), gains) for each in seen]
        if plan.summed:
            return [total + each for total, each in zip(totals, gathered, strict=True)]
        for view in views:
            write(view, head, gathered[view])
        return totals

    nothing = [jnp.zeros((plan.rows, plan.gained)) for _ in views if plan.summed]
    totals = jax.lax.fori_loop(0, plan.heads, add_head, nothing)  # written out, heads would overflow the registers
    for view, total in enumerate(totals):
        write(view, 0, total)


def gather_program_back(plan: Plan, rows_ref, seen_ref, gradient_ref, by_rows_ref) -> None:
    """The gradient of a program's rows. Who is no agent sees nothing, so that its queries' gradient is 0."""
    views = range(len(seen_ref))
    seen = [seen_ref[view] != 0 for view in views]

    def trace_head(head: Int[Array, ""], _: None) -> None:
        queries, keys, gains = (rows_ref[:, plan.columns(part, head)] for part in range(3))
        scale = queries.shape[1] ** -0.5
        logits = product(queries, keys.T) * scale
        by_logits, by_gains = jnp.zeros_like(logits), jnp.zeros(gains.shape)
        for view in views:
            where, acting = plan.agents_rows(gradient_ref, view, head)
            gradient = triton.load(where, mask=acting, other=0)
            weights = shares(logits, seen[view])
            by_weights = product(gradient, gains.T)
            by_gains += product(weights.T.astype(gains.dtype), gradient)
            by_logits += weights * (by_weights - (weights * by_weights).sum(axis=-1, keepdims=True))
        by_logits = (by_logits * scale).astype(keys.dtype)
        parts = product(by_logits, keys), product(by_logits.T, queries), by_gains
        for number, part in enumerate(parts):
            by_rows_ref[:, plan.columns(number, head)] = part.astype(by_rows_ref.dtype)

    jax.lax.fori_loop(0, plan.heads, trace_head, None)
    for column in range(2 * plan.size + plan.heads * plan.gained, by_rows_ref.shape[1]):  # those that do not count
        by_rows_ref[:, column] = jnp.zeros(plan.rows, by_rows_ref.dtype)
