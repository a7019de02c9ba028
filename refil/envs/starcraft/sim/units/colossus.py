"""Colossus: walks over ground units and burns a line across its target."""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from refil.envs.starcraft.sim.state import norm
from refil.envs.starcraft.sim.unit import AIR, ARMORED, GROUND, IN_AIR, LIGHT, ON_GROUND, SECOND, STRUCTURE, Shots, Unit

HALF_LENGTH = 1.25  # how far the burnt line reaches to either side of the target
HALF_WIDTH = 0.15
SMACLITE_HALF_LENGTH = 1.4
SMACLITE_REACH = 1.408  # SMAClite looks for victims within this distance of the target


def burn_line(shots: Shots) -> Bool[Array, "units units *batch"]:
    """Damage every enemy on the ground that touches the line through the target, across the direction of fire."""
    along, across = _from_target(shots)
    past_end = jnp.maximum(jnp.abs(across) - HALF_LENGTH, 0.0)
    return shots.attackable & (norm(along, past_end) <= HALF_WIDTH + shots.radius[None])


def burn_box(shots: Shots) -> Bool[Array, "units units *batch"]:
    """Damage every enemy that touches a box across the direction of fire, if its center is near the target's."""
    along, across = _from_target(shots)
    outside = jnp.maximum(jnp.abs(along) - HALF_WIDTH, 0.0)
    past_end = jnp.maximum(jnp.abs(across) - SMACLITE_HALF_LENGTH, 0.0)
    touched = norm(outside, past_end) <= shots.radius[None]
    return shots.attackable & touched & (norm(along, across) <= SMACLITE_REACH)


def _from_target(shots: Shots) -> tuple[Float[Array, "units units *batch"], Float[Array, "units units *batch"]]:
    """Return the position of each unit relative to each attacker's target: along the direction of fire, and across it."""
    aim_x, aim_y = shots.aim_x[:, None], shots.aim_y[:, None]
    aim = jnp.maximum(norm(aim_x, aim_y), 1e-6)
    x, y = shots.offset_x - aim_x, shots.offset_y - aim_y
    return (x * aim_x + y * aim_y) / aim, (y * aim_x - x * aim_y) / aim


UNIT = Unit(
    letter="c",
    shape="hexagon",
    type_id=4,
    max_health=200.0,
    max_shield=150.0,
    armor=1.0,
    attributes=ARMORED,
    plane=GROUND | AIR,
    collision_layers=IN_AIR | STRUCTURE,
    damage=20.0,
    hits_per_attack=2,
    attack_period=2.2 * SECOND,
    range=6.0,
    effect=burn_line,
    speed=2.25 / SECOND,
    radius=1.0,
    collision_radius=0.75,
    max_cooldown=24.0,
)
SMACLITE = replace(
    UNIT,
    damage=10.0,
    bonus_damage=5.0,
    bonus_against=LIGHT,
    attack_period=18.0,
    range=7.0,
    effect=burn_box,
    speed=3.15 / SECOND,
    collision_radius=UNIT.radius,
    collision_layers=ON_GROUND,
)
