"""Spine Crawler: a structure with a long-range attack."""

from dataclasses import replace

from refil.envs.starcraft.sim.unit import ARMORED, BIOLOGICAL, ON_GROUND, SECOND, STRUCTURE, Unit

UNIT = Unit(
    letter="sc",
    shape="octagon",
    type_id=98,
    max_health=300.0,
    health_regen=0.2734 / SECOND,
    armor=2.0,
    attributes=ARMORED | BIOLOGICAL,
    collision_layers=ON_GROUND | STRUCTURE,
    damage=25.0,
    bonus_damage=5.0,
    bonus_against=ARMORED,
    attack_period=1.6 * SECOND,
    range=7.0,
    speed=0.0,
    radius=0.875,
    collision_radius=0.875,
)
SMACLITE = replace(UNIT, attack_period=22.0, radius=0.5, collision_radius=0.5)
