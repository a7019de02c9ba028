"""The other units that matter when a unit moves: all of them, or in kernels for large armies the few that are near.

A unit cannot touch what is further away than two units walk in a tick. Kernels can look only at the units that are nearer,
which gives the same battle: a table of `ROWS` rows takes the place of all pairs of units. Bodies do not overlap, so more units
are hardly ever near; if they are, the kernel looks at all pairs.
"""

from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from refil.envs.starcraft.sim.state import add_batch_axes
from refil.kernels.gather import take_rows

ROWS = 8  # units that a kernel looks at for each unit
BITS = 32  # of a word
MARGIN = 1.01  # for rounding


class Others(NamedTuple):
    """For each unit the slots of the others that it looks at, in ascending order; its own slot stands for nobody."""

    slots: Int[Array, "others units *batch"]
    rows: tuple[Int[Array, " units *batch"], ...] | None = None  # of the same slots; None: everyone

    def of(self, values: Shaped[Array, " units *batch"]) -> Shaped[Array, "others _ *batch"]:
        """Return the values of the other units, [other, unit]."""
        if self.rows is None:
            return values[:, None]
        return _stack([take_rows(values, row) for row in self.rows])

    def slot(self, number: Int[Array, " units *batch"]) -> Int[Array, " units *batch"]:
        """Return the slot of one of the other units, given its number among those that each unit looks at."""
        if self.rows is None:
            return number
        return reduce(jnp.add, [jnp.where(number == place, row, 0) for place, row in enumerate(self.rows)])


def everyone(like: Shaped[Array, " units *batch"]) -> Others:
    """Return all units."""
    return Others(add_batch_axes(jnp.arange(len(like))[:, None], like))


def nearest(is_near: Bool[Array, "units units *batch"]) -> tuple[Others, Bool[Array, ""]]:
    """Return the others that are near, [other, unit], and whether there is room for all of them."""
    units = is_near.shape[1]
    own = add_batch_axes(jnp.arange(units), is_near[0])
    words = _words(is_near)
    first = add_batch_axes(jnp.arange(len(words))[:, None], own) * BITS
    rows = []
    for _ in range(ROWS):
        lowest = jax.lax.population_count((words & -words) - 1)  # zeros below the lowest bit that is set
        slots = jnp.where(words == 0, units, first + lowest)
        slot = slots.min(axis=0)
        rows.append(jnp.where(slot < units, slot, own))
        words = jnp.where(slots == slot[None], words & (words - 1), words)
    return Others(_stack(rows), tuple(rows)), (is_near.sum(axis=0) > ROWS).sum() == 0


def _stack(rows: list[Shaped[Array, " units *batch"]]) -> Shaped[Array, "others units *batch"]:
    """Return the rows of an array; kernels cannot concatenate arrays."""
    numbers = add_batch_axes(jnp.arange(len(rows))[:, None], rows[0])
    stacked = rows[0][None]
    for number, row in enumerate(rows[1:], 1):
        stacked = jnp.where(numbers == number, row[None], stacked)
    return stacked


def _words(flags: Bool[Array, "units units *batch"]) -> Int[Array, "words units *batch"]:
    """Return the flags of 32 units as the bits of a word."""
    units, bits = len(flags), min(len(flags), BITS)
    bit = add_batch_axes(jnp.left_shift(1, jnp.arange(units) % bits)[:, None], flags[0])
    return jnp.where(flags, bit, 0).reshape(units // bits, bits, *flags.shape[1:]).sum(axis=1)


def reach(
    length: Float[Array, " units *batch"], idle: Bool[Array, " units *batch"], push_gap: float
) -> tuple[Float[Array, " units *batch"], Float[Array, "*batch"]]:
    """Return the gap from which a unit cannot matter, given how far all intend to walk; and the longest step.

    Idle units that are pushed are assumed to go no further than that. In a step a unit uses half of a gap or, if the other one
    stands, all of it; then it walks the rest towards units that have also moved.
    """
    longest = length.max(axis=0)
    own = jnp.where(idle, longest[None], length)
    return jnp.maximum(MARGIN * (2 * own + longest[None]), MARGIN * push_gap), longest
