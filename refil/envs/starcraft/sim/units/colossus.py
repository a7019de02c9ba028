"""Colossus: strides over the others and burns a line across its target."""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from refil.envs.starcraft.sim.state import length
from refil.envs.starcraft.sim.unit import AIR, ARMOURED, GROUND, IN_AIR, LIGHT, ON_GROUND, SECOND, STRUCTURE, Shots, Unit

HALF_LINE = 1.25  # of the burnt line, to either side of the target
HALF_WIDTH = 0.15
SMACLITE_HALF_LINE = 1.4
SMACLITE_SEEN = 1.408  # SMAClite looks for victims no further from the target than this


def burn(shots: Shots) -> Bool[Array, "units units *batch"]:
    """Every foe on the ground that touches the line through the target, across the direction of fire."""
    along, across = from_target(shots)
    beyond = jnp.maximum(jnp.abs(across) - HALF_LINE, 0.0)
    return shots.hittable & (length(along, beyond) <= HALF_WIDTH + shots.radius[None])


def burn_as_smaclite(shots: Shots) -> Bool[Array, "units units *batch"]:
    """Every foe that touches a box across the direction of fire, if its centre is near the target's."""
    along, across = from_target(shots)
    beside = jnp.maximum(jnp.abs(along) - HALF_WIDTH, 0.0)
    beyond = jnp.maximum(jnp.abs(across) - SMACLITE_HALF_LINE, 0.0)
    touched = length(beside, beyond) <= shots.radius[None]
    return shots.hittable & touched & (length(along, across) <= SMACLITE_SEEN)


def from_target(shots: Shots) -> tuple[Float[Array, "units units *batch"], Float[Array, "units units *batch"]]:
    """Where each unit stands as seen from a shooter's target: along the direction of fire, and across it."""
    aim_x, aim_y = shots.aim_x[:, None], shots.aim_y[:, None]
    aim = jnp.maximum(length(aim_x, aim_y), 1e-6)
    x, y = shots.offset_x - aim_x, shots.offset_y - aim_y
    return (x * aim_x + y * aim_y) / aim, (y * aim_x - x * aim_y) / aim


UNIT = Unit(
    letter="c",
    number=4,
    health=200.0,
    shield=150.0,
    armour=1.0,
    attributes=ARMOURED,
    plane=GROUND | AIR,
    collides=IN_AIR | STRUCTURE,
    damage=20.0,
    strikes=2,
    period=2.2 * SECOND,
    range=6.0,
    effect=burn,
    speed=2.25 / SECOND,
    radius=1.0,
    body=0.75,
    cooldown_shown=24.0,
)
SMACLITE = replace(
    UNIT,
    damage=10.0,
    bonus=5.0,
    bonus_against=LIGHT,
    period=18.0,
    range=7.0,
    effect=burn_as_smaclite,
    speed=3.15 / SECOND,
    body=UNIT.radius,
    collides=ON_GROUND,
)
