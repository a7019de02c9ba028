"""Marauder: much health, extra damage against armored units, cannot attack air units."""

from dataclasses import replace

from refil.envs.starcraft.sim.unit import ARMORED, BIOLOGICAL, SECOND, Unit

UNIT = Unit(
    letter="M",
    shape="square",
    type_id=51,
    max_health=125.0,
    armor=1.0,
    attributes=ARMORED | BIOLOGICAL,
    damage=10.0,
    bonus_damage=10.0,
    bonus_against=ARMORED,
    attack_period=1.5 * SECOND,
    range=6.0,
    speed=2.25 / SECOND,
    radius=0.5625,
    collision_radius=0.5,
    max_cooldown=25.0,
)
SMACLITE = replace(UNIT, attack_period=18.0, speed=3.15 / SECOND, collision_radius=UNIT.radius)
