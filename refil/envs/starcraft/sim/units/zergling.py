"""Zergling: fast melee unit with little health."""

from dataclasses import replace

from refil.envs.starcraft.sim.unit import BIOLOGICAL, LIGHT, SECOND, Unit

UNIT = Unit(
    letter="zg",
    shape="star",
    type_id=105,
    max_health=35.0,
    health_regen=0.2734 / SECOND,
    attributes=LIGHT | BIOLOGICAL,
    damage=5.0,
    attack_period=0.696 * SECOND,
    range=0.1,
    speed=2.9531 / SECOND,
    radius=0.375,
    collision_radius=0.375,
    max_cooldown=11.0,
)
SMACLITE = replace(UNIT, attack_period=8.0, speed=4.13 / SECOND)
