"""Stalker: fast, long-range attack against ground and air."""

from dataclasses import replace

from refil.envs.starcraft.sim.unit import AIR, ARMORED, GROUND, SECOND, Unit

UNIT = Unit(
    letter="s",
    shape="diamond",
    type_id=74,
    max_health=80.0,
    max_shield=80.0,
    armor=1.0,
    attributes=ARMORED,
    damage=10.0,
    bonus_damage=4.0,
    bonus_against=ARMORED,
    target_planes=GROUND | AIR,
    attack_period=1.44 * SECOND,
    range=6.0,
    speed=2.9531 / SECOND,
    radius=0.625,
    collision_radius=0.625,
    max_cooldown=35.0,
)
SMACLITE = replace(UNIT, damage=13.0, bonus_damage=5.0, attack_period=22.0, speed=4.13 / SECOND)
