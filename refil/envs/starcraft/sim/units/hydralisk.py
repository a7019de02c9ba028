"""Hydralisk: fast ranged attack against ground and air, little health."""

from refil.envs.starcraft.sim.unit import AIR, BIOLOGICAL, GROUND, LIGHT, SECOND, Unit

UNIT = Unit(
    letter="h",
    shape="pentagon",
    type_id=107,
    max_health=80.0,
    health_regen=0.2734 / SECOND,
    attributes=LIGHT | BIOLOGICAL,
    damage=12.0,
    target_planes=GROUND | AIR,
    attack_period=0.83 * SECOND,
    range=5.0,
    speed=2.25 / SECOND,
    radius=0.625,
    collision_radius=0.5,
    max_cooldown=10.0,
)
SMACLITE = None
