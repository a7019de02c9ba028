"""Zealot: melee, two hits per attack."""

from dataclasses import replace

from refil.envs.starcraft.sim.unit import BIOLOGICAL, LIGHT, SECOND, Unit

UNIT = Unit(
    letter="z",
    shape="triangle",
    type_id=73,
    max_health=100.0,
    max_shield=50.0,
    armor=1.0,
    attributes=LIGHT | BIOLOGICAL,
    damage=8.0,
    hits_per_attack=2,
    attack_period=1.2 * SECOND,
    range=0.1,
    speed=2.25 / SECOND,
    radius=0.5,
    collision_radius=0.375,
    max_cooldown=22.0,
)
SMACLITE = replace(UNIT, attack_period=14.0, speed=3.15 / SECOND, collision_radius=UNIT.radius)
