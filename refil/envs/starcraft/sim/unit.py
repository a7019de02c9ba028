"""A unit type as a record of numbers, and all types of a battle as columns.

Lengths are in map cells, times in game loops, 16 to the second of the game's catalogue.
"""

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

SECOND = 16.0  # loops

GROUND, AIR = 1, 2  # planes: where a unit can be hit, and what its weapon hits
LIGHT, ARMOURED, BIOLOGICAL = 1, 2, 4  # attributes
ON_GROUND, IN_AIR, STRUCTURE = 1, 2, 4  # bodies that share one of these keep apart


class Shots(eqx.Module):
    """What an effect may look at: who shoots at whom, from where; `offset_x[i, j]` leads from unit i to unit j.

    `aim_x` and `aim_y` lead to the target. On a GPU an effect is part of a kernel: sums, comparisons and reductions over pairs
    are all that can be used there, no looking up by index.
    """

    target: Int[Array, "units *batch"]
    aim_x: Float[Array, "units *batch"]
    aim_y: Float[Array, "units *batch"]
    offset_x: Float[Array, "units units *batch"]
    offset_y: Float[Array, "units units *batch"]
    radius: Float[Array, "units *batch"]
    hittable: Bool[Array, "units units *batch"]


Effect = Callable[[Shots], Bool[Array, "units units *batch"]]  # [shooter, victim]: whom a shot hurts


def aimed(shots: Shots) -> Bool[Array, "units units *batch"]:
    """The target, nobody else."""
    slots = jnp.arange(len(shots.target)).reshape(1, -1, *[1] * (shots.target.ndim - 1))
    return shots.target[:, None] == slots


@dataclass(frozen=True)
class Unit:
    """One unit type. A unit without `period` has no weapon; one with `heal` mends instead."""

    letter: str  # in the names of armies
    number: int  # the game's own number of this type; feature rows and enemies are in this order
    health: float
    speed: float  # a loop
    radius: float  # for ranges and splash
    body: float  # for keeping apart
    shield: float = 0.0
    armour: float = 0.0
    attributes: int = 0
    plane: int = GROUND
    collides: int = ON_GROUND
    damage: float = 0.0
    strikes: int = 1  # hits of one shot
    bonus: float = 0.0
    bonus_against: int = 0
    hits: int = GROUND
    range: float = 0.0  # of the weapon or of healing, edge to edge
    period: float = 0.0
    effect: Effect = aimed
    dies_attacking: bool = False
    energy: float = 0.0
    energy_most: float = 0.0
    energy_regained: float = 0.0  # a loop
    health_regained: float = 0.0  # a loop
    shield_regained: float = 2.0 / SECOND  # a loop, once nothing has hurt the unit for a while
    heal: float = 0.0  # a loop
    heal_cost: float = 0.0  # energy for one health
    acceleration: float = 0.0  # a loop and loop; 0 is at once
    cooldown_shown: float = 1.0  # what the wrapper divides cooldowns by

    @property
    def life(self) -> float:
        """Health and shield together."""
        return self.health + self.shield


NUMBERS = [field.name for field in fields(Unit) if field.name not in ("letter", "effect")]


class Traits(namedtuple("Traits", NUMBERS)):
    """The numbers of every unit in a battle, those of its type: each [units, *batch], or along one axis of pairs."""

    def along(self, axis: int) -> "Traits":
        """The same along this axis of pairs, one wide along the other."""
        return Traits(*(jnp.expand_dims(leaf, 1 - axis) for leaf in self))

    @property
    def armed(self) -> Bool[Array, "units *batch"]:
        """Who has a weapon."""
        return self.period > 0

    @property
    def heals(self) -> Bool[Array, "units *batch"]:
        """Who mends."""
        return self.heal > 0


@dataclass(frozen=True)
class Table:
    """The unit types of a battle, in the game's order; `kind` indexes it, -1 is an empty slot."""

    names: tuple[str, ...]
    units: tuple[Unit, ...]

    def __getitem__(self, kind: Int[Array, "units *batch"]) -> Traits:
        kinds = [kind == number for number in range(len(self.units))]
        return Traits(*(self.column(name, kinds) for name in NUMBERS))

    def column(self, name: str, kinds: list[Bool[Array, "units *batch"]]) -> Shaped[Array, "units *batch"]:
        """One number of everybody, whose types are marked, and nothing for empty slots; a kernel could not look it up."""
        values = [getattr(unit, name) for unit in self.units]
        dtype = jnp.int32 if isinstance(values[0], int) else jnp.float32
        column = jnp.zeros(kinds[0].shape, dtype)
        for of_kind, value in zip(kinds, values, strict=True):
            column = jnp.where(of_kind, jnp.asarray(value, dtype), column)
        return column

    def any(self, name: str) -> bool:
        """Whether some type has this number at all; what none has is not computed."""
        return any(getattr(unit, name) for unit in self.units)

    @cached_property
    def effects(self) -> dict[Effect, list[int]]:
        """The ways shots hurt, and which kinds shoot so."""
        ways = dict.fromkeys(unit.effect for unit in self.units if unit.period)
        return {effect: [kind for kind, unit in enumerate(self.units) if unit.effect == effect] for effect in ways}
