"""Unit types: one record of numbers per type, and the table of all types in a game.

Lengths are in map cells, times in game ticks; 16 ticks are one second in the game's unit catalog.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

SECOND = 16.0  # ticks

GROUND, AIR = 1, 2  # planes: where a unit can be hit, and what its weapon can hit
LIGHT, ARMORED, BIOLOGICAL = 1, 2, 4  # attributes
ON_GROUND, IN_AIR, STRUCTURE = 1, 2, 4  # collision layers: units that share a layer cannot overlap


class Shots(eqx.Module):
    """Input of an effect: the target of every unit's attack, and all positions relative to the attackers.

    `offset_x[i, j]` leads from unit i to unit j, `aim_x[i]` from unit i to its target; `attackable[i, j]` says whether unit i
    can damage unit j at all. On a GPU an effect runs inside a kernel, where only arithmetic, comparisons and reductions over
    pairs of units are possible, and no indexing.
    """

    target: Int[Array, " units *batch"]
    aim_x: Float[Array, " units *batch"]
    aim_y: Float[Array, " units *batch"]
    offset_x: Float[Array, "units units *batch"]
    offset_y: Float[Array, "units units *batch"]
    radius: Float[Array, " units *batch"]
    attackable: Bool[Array, "units units *batch"]


Effect = Callable[[Shots], Bool[Array, "units units *batch"]]  # [attacker, victim]: whom an attack damages


def single_target(shots: Shots) -> Bool[Array, "units units *batch"]:
    """Damage only the target."""
    slots = jnp.arange(len(shots.target)).reshape(1, -1, *[1] * (shots.target.ndim - 1))
    return shots.target[:, None] == slots


@dataclass(frozen=True)
class Unit:
    """One unit type. A type without `attack_period` has no weapon; a type with `heal_rate` heals instead of attacking."""

    letter: str  # abbreviation in army names
    type_id: int  # the game's unit type ID; feature columns and enemy slots are sorted by it
    max_health: float
    speed: float  # per tick
    radius: float  # radius for weapon ranges and splash damage
    collision_radius: float
    max_shield: float = 0.0
    armor: float = 0.0
    attributes: int = 0
    plane: int = GROUND
    collision_layers: int = ON_GROUND
    damage: float = 0.0  # damage of one hit
    hits_per_attack: int = 1
    bonus_damage: float = 0.0
    bonus_against: int = 0  # attributes
    target_planes: int = GROUND
    range: float = 0.0  # range of the weapon or of healing, edge to edge
    attack_period: float = 0.0  # ticks between two attacks
    effect: Effect = single_target
    dies_attacking: bool = False
    start_energy: float = 0.0
    max_energy: float = 0.0
    energy_regen: float = 0.0  # per tick
    health_regen: float = 0.0  # per tick
    shield_regen: float = 2.0 / SECOND  # per tick, after some time without damage (rules.SHIELD_DELAY)
    heal_rate: float = 0.0  # health per tick
    heal_cost: float = 0.0  # energy per health
    acceleration: float = 0.0  # speed gained per tick; 0 reaches full speed immediately
    max_cooldown: float = 1.0  # divisor of the cooldown feature in SMAC
    shape: str = "circle"  # shape in drawings, one of `refil.scene.SHAPES`


class UnitStats(eqx.Module):
    """The numbers of the unit type in every slot, zero in empty slots; see `Unit` for their meaning."""

    type_id: Int[Array, " units *batch"]
    max_health: Float[Array, " units *batch"]
    speed: Float[Array, " units *batch"]
    radius: Float[Array, " units *batch"]
    collision_radius: Float[Array, " units *batch"]
    max_shield: Float[Array, " units *batch"]
    armor: Float[Array, " units *batch"]
    attributes: Int[Array, " units *batch"]
    plane: Int[Array, " units *batch"]
    collision_layers: Int[Array, " units *batch"]
    damage: Float[Array, " units *batch"]
    hits_per_attack: Int[Array, " units *batch"]
    bonus_damage: Float[Array, " units *batch"]
    bonus_against: Int[Array, " units *batch"]
    target_planes: Int[Array, " units *batch"]
    range: Float[Array, " units *batch"]
    attack_period: Float[Array, " units *batch"]
    dies_attacking: Int[Array, " units *batch"]
    start_energy: Float[Array, " units *batch"]
    max_energy: Float[Array, " units *batch"]
    energy_regen: Float[Array, " units *batch"]
    health_regen: Float[Array, " units *batch"]
    shield_regen: Float[Array, " units *batch"]
    heal_rate: Float[Array, " units *batch"]
    heal_cost: Float[Array, " units *batch"]
    acceleration: Float[Array, " units *batch"]
    max_cooldown: Float[Array, " units *batch"]

    def along(self, axis: int) -> "UnitStats":
        """Return the stats with units along this axis of an array of pairs, and length 1 along the other."""
        return jax.tree.map(lambda leaf: jnp.expand_dims(leaf, 1 - axis), self)

    @property
    def armed(self) -> Bool[Array, " units *batch"]:
        """Whether each unit has a weapon."""
        return self.attack_period > 0

    @property
    def heals(self) -> Bool[Array, " units *batch"]:
        """Whether each unit can heal."""
        return self.heal_rate > 0


Multipliers = dict[str, Float[Array, " units *batch"]]  # by keys of `VARIED`; those that do not vary are missing
# What each multiplier multiplies. A task can vary these stats from unit to unit.
VARIED = {
    "health": ("max_health", "max_shield"),
    "damage": ("damage", "bonus_damage", "heal_rate"),
    "range": ("range",),
    "speed": ("speed", "acceleration"),
}


def scale(stats: Any, multipliers: Mapping[str, Any]) -> Any:
    """Return stats (`UnitStats` or one `Unit`) times their multipliers."""
    factors = {stat: multipliers[name] for name, scaled in VARIED.items() if name in multipliers for stat in scaled}
    return replace(stats, **{stat: getattr(stats, stat) * factor for stat, factor in factors.items()})


@dataclass(frozen=True)
class UnitTable:
    """The unit types of a game, sorted by type ID; `State.unit_type` indexes it, and -1 is an empty slot."""

    names: tuple[str, ...]
    units: tuple[Unit, ...]

    @partial(jax.jit, static_argnums=0, inline=True)  # traced once per shape, not at every use
    def __getitem__(self, unit_type: Int[Array, " units *batch"]) -> UnitStats:
        is_type = [unit_type == number for number in range(len(self.units))]
        return UnitStats(**{field.name: self._column(field.name, is_type) for field in fields(UnitStats)})

    def _column(self, stat: str, is_type: list[Bool[Array, " units *batch"]]) -> Shaped[Array, " units *batch"]:
        # Selected type by type, because kernels cannot index.
        values = [getattr(unit, stat) for unit in self.units]
        dtype = jnp.int32 if isinstance(values[0], int) else jnp.float32
        column = jnp.zeros(is_type[0].shape, dtype)
        for mask, value in zip(is_type, values, strict=True):
            column = jnp.where(mask, jnp.asarray(value, dtype), column)
        return column

    def any(self, stat: str) -> bool:
        """Return whether this number is nonzero for some type; rules that concern no type are not computed."""
        return any(getattr(unit, stat) for unit in self.units)

    @cached_property
    def effects(self) -> dict[Effect, list[int]]:
        """The effects of weapons, each with the types that have it."""
        effects = dict.fromkeys(unit.effect for unit in self.units if unit.attack_period)
        return {effect: [number for number, unit in enumerate(self.units) if unit.effect == effect] for effect in effects}
