"""A battle at one instant: arrays over units, allies first; and the ground it is fought on.

Units are the first axis and batches of battles the last ones: every line over pairs of units is then a long loop over
battles, on a CPU as on a GPU. `batches_last` lets plain `jax.vmap` put them there. Of pairs, in game loops, the second axis
is the unit in question and the first one the other, over which it sums up or chooses: a kernel's thread does that by itself.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from refil.envs.starcraft.sim.rules import Rules
from refil.envs.starcraft.sim.unit import Table

NOBODY = -1
Constants = tuple[float | int, ...]


class World(eqx.Module):
    """Every unit, alive, dead or an empty slot (`kind` -1).

    `target` is whom it goes for: to shoot, or to mend; else, if `going`, it walks to its goal. One that `roams` chooses
    targets of its own accord (it attack-moves). `pace` is how fast it goes, `veer` to which side of its course it is
    turned. `quiet` counts loops since it was hurt last, `attacker` is who did it.
    """

    kind: Int[Array, "units *batch"]
    tag: Int[Array, "units *batch"]
    x: Float[Array, "units *batch"]
    y: Float[Array, "units *batch"]
    health: Float[Array, "units *batch"]
    shield: Float[Array, "units *batch"]
    energy: Float[Array, "units *batch"]
    cooldown: Float[Array, "units *batch"]
    pace: Float[Array, "units *batch"]
    veer: Int[Array, "units *batch"]
    quiet: Int[Array, "units *batch"]
    target: Int[Array, "units *batch"]
    attacker: Int[Array, "units *batch"]
    roams: Bool[Array, "units *batch"]
    going: Bool[Array, "units *batch"]
    goal_x: Float[Array, "units *batch"]
    goal_y: Float[Array, "units *batch"]
    time: Int[Array, "*batch"]

    @property
    def present(self) -> Bool[Array, "units *batch"]:
        """Which slots hold a unit, dead or alive."""
        return self.kind >= 0

    @property
    def alive(self) -> Bool[Array, "units *batch"]:
        """Who lives."""
        return self.health > 0


@dataclass(frozen=True)
class Arena:
    """The walkable ground and where the armies start; all maps are cut from the same 32 x 32 cells."""

    west: float = 0.0
    east: float = 32.0
    south: float = 0.0
    north: float = 32.0
    rotates: bool = True  # armies on opposite sides of the centre, at any angle

    size = 32.0
    centre = 16.0
    apart = 7.0  # from the centre to either army


ARENAS = {
    "any_angle": Arena(),
    "strip": Arena(south=8.0, north=24.0, rotates=False),
    "whole": Arena(rotates=False),
}


@dataclass(frozen=True)
class Game:
    """All of a battle that never changes: who is on which side, the unit types, the ground, the rules."""

    allies: int
    units: int
    table: Table
    arena: Arena
    rules: Rules
    in_kernel: bool = False  # the loops are being written as a kernel, where nothing can be looked up by its number

    @property
    def enemies(self) -> Bool[Array, " units"]:
        """Which slots are the enemy's."""
        return jnp.arange(self.units) >= self.allies

    @property
    def foes(self) -> Bool[Array, "units units"]:
        """Which pairs of slots are of two sides."""
        return self.enemies[:, None] != self.enemies


def over_batch(pairs: Array, like: Array) -> Array:
    """An array without batch axes, ready to be combined with one that has them after its first axis."""
    return pairs.reshape(*pairs.shape, *[1] * (like.ndim - 1))


def length(x: Float[Array, "*any"], y: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """How long a way is. `jnp.hypot` would also do for numbers that no map has, at several times the cost."""
    return jnp.sqrt(x**2 + y**2)


def of(values: Shaped[Array, "units *batch"], index: Int[Array, "units *batch"], game: Game) -> Shaped[Array, "units *batch"]:
    """Each unit's value of the unit that it points at (of the first one where it points at nobody).

    As one flat gather: with an index along each axis, XLA would first write all indices to memory. Within a kernel nothing
    can be looked up, so that everyone is compared with everyone.
    """
    index = jnp.maximum(index, 0)
    if game.in_kernel:
        meant = index[None] == over_batch(jnp.arange(len(values))[:, None], index)
        return jnp.where(meant, values[:, None], 0).sum(axis=0).astype(values.dtype)
    battles = math.prod(values.shape[1:])
    place = index.astype(jnp.int32) * battles + jnp.arange(battles).reshape(values.shape[1:])
    return values.reshape(-1).at[place].get(mode="promise_in_bounds")


def row(values: Shaped[Array, "units *rest"], number: Int[Array, ""] | int, game: Game) -> Shaped[Array, "*rest"]:
    """One unit's values."""
    if game.in_kernel:
        return jnp.where(over_batch(jnp.arange(len(values)) == number, values), values, 0).sum(axis=0)
    return jax.lax.dynamic_index_in_dim(values, number, keepdims=False)


def in_turn(function: Callable[..., Any], now: Any, rows: Sequence[Constants], game: Game) -> Any:
    """What comes of applying `now = function(now, *row)` for each of these rows.

    Written out, so that all is one pass over the battles; within a kernel as a loop, which compiles in a third of the time.
    """
    if not game.in_kernel:
        return reduce(lambda now, row: function(now, *row), rows, now)

    def chosen(number: Int[Array, ""], constants: Constants) -> Shaped[Array, ""]:
        kind = jnp.result_type(*constants)  # Triton cannot choose between two plain numbers, only multiply and add them
        return sum((number == place).astype(kind) * constant for place, constant in enumerate(constants))

    columns = list(zip(*rows, strict=True))
    return jax.lax.fori_loop(0, len(rows), lambda i, now: function(now, *(chosen(i, column) for column in columns)), now)


def batches_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of arrays such that vmap adds a last axis instead of a first one."""
    wrapped = jax.custom_batching.custom_vmap(function)

    @wrapped.def_vmap
    def over_batch(size: int, batched: Any, *arguments: Any) -> tuple[Any, Any]:
        def move(leaf: Array, is_batched: bool) -> Array:
            return jnp.moveaxis(leaf, 0, -1) if is_batched else jnp.broadcast_to(leaf[..., None], (*leaf.shape, size))

        results = wrapped(*jax.tree.map(move, arguments, tuple(batched)))
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), results), jax.tree.map(lambda _: True, results)

    return wrapped
