"""Spine Crawler: a rooted tentacle with a long reach."""

from dataclasses import replace

from refil.envs.starcraft.sim.unit import ARMOURED, BIOLOGICAL, ON_GROUND, SECOND, STRUCTURE, Unit

UNIT = Unit(
    letter="sc",
    number=98,
    health=300.0,
    health_regained=0.2734 / SECOND,
    armour=2.0,
    attributes=ARMOURED | BIOLOGICAL,
    collides=ON_GROUND | STRUCTURE,
    damage=25.0,
    bonus=5.0,
    bonus_against=ARMOURED,
    period=1.6 * SECOND,
    range=7.0,
    speed=0.0,
    radius=0.875,
    body=0.875,
)
SMACLITE = replace(UNIT, period=22.0, radius=0.5, body=0.5)
