"""The state of a battle: arrays over units, allies first; and the map it is fought on.

Units are the first axis and batches of battles the last: every operation on pairs of units is then a long loop over battles,
on a CPU and on a GPU. `batches_last` makes plain `jax.vmap` put batch axes there. In arrays of pairs the second axis is the
unit in question and the first one the other unit, over which it sums or chooses: one thread of a kernel does that alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from refil import hardware
from refil.envs.starcraft.sim.rules import Rules
from refil.envs.starcraft.sim.unit import Multipliers, UnitStats, UnitTable, scale
from refil.kernels.gather import take_rows

NOBODY = -1  # no target, no attacker, no unit
MANY_PAIRS = 4096  # from this size on, XLA for CPUs reduces arrays of pairs with a library
MOST_PAIRS = 2**18  # size of such an array above which a CPU takes several times as long per battle
Constants = tuple[float | int, ...]


class State(eqx.Module):
    """One timestep of a battle: every slot holds a living unit, a dead one, or none (`unit_type` -1).

    A unit attacks or heals its `target`; without a target it walks to its goal if it is `moving`. Units that are
    `attack_moving` choose their targets themselves. `cooldown` is the number of ticks until the weapon can fire again,
    `current_speed` that of units that accelerate, `turn_side` the side of its course to which a unit has turned to get around
    an obstacle (-1, 0 or 1). `attacker` is the last unit that damaged it, `ticks_since_hit` how long ago that was.
    `tag` is the unit's number in observations and actions. `time` counts environment steps. `multipliers` say by how much
    each unit's stats differ from those of its type; they are empty where nothing varies.
    """

    unit_type: Int[Array, " units *batch"]
    tag: Int[Array, " units *batch"]
    x: Float[Array, " units *batch"]
    y: Float[Array, " units *batch"]
    health: Float[Array, " units *batch"]
    shield: Float[Array, " units *batch"]
    energy: Float[Array, " units *batch"]
    cooldown: Float[Array, " units *batch"]
    current_speed: Float[Array, " units *batch"]
    turn_side: Int[Array, " units *batch"]
    ticks_since_hit: Int[Array, " units *batch"]
    target: Int[Array, " units *batch"]
    attacker: Int[Array, " units *batch"]
    attack_moving: Bool[Array, " units *batch"]
    moving: Bool[Array, " units *batch"]
    goal_x: Float[Array, " units *batch"]
    goal_y: Float[Array, " units *batch"]
    time: Int[Array, "*batch"]
    multipliers: Multipliers = field(default_factory=dict)

    @property
    def present(self) -> Bool[Array, " units *batch"]:
        """Whether each slot holds a unit, dead or alive."""
        return self.unit_type >= 0

    @property
    def alive(self) -> Bool[Array, " units *batch"]:
        """Whether each slot holds a living unit."""
        return self.health > 0


@dataclass(frozen=True)
class Arena:
    """The walkable part of the map and how armies are placed on it; all maps are cut from the same 32 x 32 cells."""

    west: float = 0.0
    east: float = 32.0
    south: float = 0.0
    north: float = 32.0
    random_angle: bool = True  # armies start on opposite sides of the center, at a random angle

    size = 32.0
    center = 16.0
    spawn_distance = 7.0  # distance of either army from the center


ARENAS = {
    "any_angle": Arena(),
    "strip": Arena(south=8.0, north=24.0, random_angle=False),
    "whole": Arena(random_angle=False),
}


@dataclass(frozen=True)
class Game:
    """Everything about a battle that never changes: the slots of both teams, the unit types, the map and the rules."""

    num_allies: int
    num_units: int
    table: UnitTable
    arena: Arena
    rules: Rules
    in_kernel: bool = False  # ticks are being traced for a kernel, where arrays cannot be indexed
    near_only: bool = False  # inside a kernel, units look only at others that are near when they move
    tags: int | None = None  # tags of each team, from which its units draw theirs; None: as many as it has slots

    @property
    def ally_tags(self) -> int:
        """The number of tags that allies can have."""
        return self.num_allies if self.tags is None else self.tags

    @property
    def enemy_tags(self) -> int:
        """The number of tags that enemies can have; they are the first ones."""
        return self.num_units - self.num_allies if self.tags is None else self.tags

    @property
    def num_tags(self) -> int:
        """The number of all tags."""
        return self.enemy_tags + self.ally_tags

    @property
    def is_enemy(self) -> Bool[Array, " units"]:
        """Whether each slot belongs to the enemy."""
        return jnp.arange(self.num_units) >= self.num_allies

    def stats(self, state: State) -> UnitStats:
        """Return the stats of every unit: those of its type times its multipliers."""
        return scale(self.table[state.unit_type], state.multipliers)

    @property
    def opponents(self) -> Bool[Array, "units units"]:
        """Whether each pair of slots belongs to different teams."""
        return self.is_enemy[:, None] != self.is_enemy


def add_batch_axes(values: Array, like: Array) -> Array:
    """Return an array without batch axes with as many of length 1 as `like` has after its first axis."""
    return values.reshape(*values.shape, *[1] * (like.ndim - 1))


def norm(x: Float[Array, "*any"], y: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """Return the length of a vector; `jnp.hypot` also handles overflow, which no map needs, at several times the cost."""
    return jnp.sqrt(x**2 + y**2)


def at_target(
    values: Shaped[Array, " units *batch"], target: Int[Array, " units *batch"], game: Game
) -> Shaped[Array, " units *batch"]:
    """Return for each unit the value of its target, or of the first unit where it has none.

    This is one flat gather: with an index along each axis, XLA would first write all indices to memory. Kernels have
    their own form.
    """
    target = jnp.maximum(target, 0)
    if game.in_kernel:
        return take_rows(values, target)
    battles = math.prod(values.shape[1:])
    index = target.astype(jnp.int32) * battles + jnp.arange(battles).reshape(values.shape[1:])
    return values.reshape(-1).at[index].get(mode="promise_in_bounds")


def argmin(cost: Float[Array, "others units *batch"], game: Game) -> Int[Array, " units *batch"]:
    """Return for each unit the other one with the least cost, the first of several.

    On a CPU two reductions take its place: XLA does not vectorize `jnp.argmin`, which would take half of the time of a battle.
    """
    if hardware.on_gpu() and not game.in_kernel:
        return jnp.argmin(cost, axis=0)
    is_least = cost == cost.min(axis=0)[None]
    return jnp.where(is_least, add_batch_axes(jnp.arange(len(cost)), cost), len(cost)).min(axis=0)


def take_unit(values: Shaped[Array, " units *rest"], slot: Int[Array, ""] | int) -> Shaped[Array, "*rest"]:
    """Return the values of the unit in one slot."""
    return jax.lax.dynamic_index_in_dim(values, slot, keepdims=False)


def apply_rows(function: Callable[..., Any], carry: Any, rows: Sequence[Constants], game: Game) -> Any:
    """Apply `carry = function(carry, *row)` for each row of constants, and return the last carry.

    The loop is unrolled, so that XLA makes one pass over the battles; inside a kernel it is a real loop, which compiles in a
    third of the time.
    """
    if not game.in_kernel:
        return reduce(lambda carry, row: function(carry, *row), rows, carry)

    def constant(index: Int[Array, ""], column: Constants) -> Shaped[Array, ""]:
        dtype = jnp.result_type(*column)  # Triton cannot select between two scalars, only multiply and add them
        return jnp.asarray(sum((index == place).astype(dtype) * value for place, value in enumerate(column)))

    columns = list(zip(*rows, strict=True))
    return jax.lax.fori_loop(
        0, len(rows), lambda i, carry: function(carry, *(constant(i, column) for column in columns)), carry
    )


def update_if(condition: Bool[Array, ""], values: Any, function: Callable[[], Any]) -> Any:
    """Return the results of a function if a condition is met, else the values given; for kernels, where most blocks skip it."""
    return jax.lax.cond(condition, function, lambda: values)


def compute_once(function: Callable[[], Array], like: Array, game: Game) -> Array:
    """Return the array of pairs that a function returns, which has the shape of `like` and which several reductions use.

    On a CPU XLA would compute the array again inside every reduction, unless it depends on a condition. The condition here
    always holds. LLVM does not vectorize the longer loops well: eight battles would take more than twice as long.
    """
    if hardware.on_gpu() or game.in_kernel or like.size >= MANY_PAIRS:
        return function()
    return jax.lax.cond(like.reshape(-1)[0] > -jnp.inf, function, lambda: jnp.zeros_like(like))


def in_parts(function: Callable[..., Any], state: State, jitter: Float[Array, " units *batch"]) -> Any:
    """Return `function(state, jitter)`; on a CPU, for many battles, one part of them after another."""
    units, *batch = jitter.shape
    battles = math.prod(batch)
    most = max(MOST_PAIRS // units**2, 1)
    if hardware.on_gpu() or battles <= most:
        return function(state, jitter)
    count = math.ceil(battles / most)
    size = math.ceil(battles / count)

    def split(leaf: Array) -> Array:
        flat = leaf.reshape(*leaf.shape[: leaf.ndim - len(batch)], battles)
        padded = jnp.pad(flat, [(0, 0)] * (flat.ndim - 1) + [(0, count * size - battles)])
        return jnp.moveaxis(padded.reshape(*flat.shape[:-1], count, size), -2, 0)

    def join(leaf: Array) -> Array:
        whole = jnp.moveaxis(leaf, 0, -2)
        flat = whole.reshape(*whole.shape[:-2], count * size)[..., :battles]
        return flat.reshape(*flat.shape[:-1], *batch)

    return jax.tree.map(join, jax.lax.map(lambda part: function(*part), jax.tree.map(split, (state, jitter))))


def batches_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays to which vmap adds a last axis instead of a first one."""
    wrapped = jax.custom_batching.custom_vmap(function)

    @wrapped.def_vmap
    def vmap_rule(size: int, batched: Any, *arguments: Any) -> tuple[Any, Any]:
        def move(leaf: Array, is_batched: bool) -> Array:
            return jnp.moveaxis(leaf, 0, -1) if is_batched else jnp.broadcast_to(leaf[..., None], (*leaf.shape, size))

        results = wrapped(*jax.tree.map(move, arguments, tuple(batched)))
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), results), jax.tree.map(lambda _: True, results)

    return wrapped
