"""Zealot: fights hand to hand, two blows at a time."""

from dataclasses import replace

from refil.envs.starcraft.sim.unit import BIOLOGICAL, LIGHT, SECOND, Unit

UNIT = Unit(
    letter="z",
    number=73,
    health=100.0,
    shield=50.0,
    armour=1.0,
    attributes=LIGHT | BIOLOGICAL,
    damage=8.0,
    strikes=2,
    period=1.2 * SECOND,
    range=0.1,
    speed=2.25 / SECOND,
    radius=0.5,
    body=0.375,
    cooldown_shown=22.0,
)
SMACLITE = replace(UNIT, period=14.0, speed=3.15 / SECOND, body=UNIT.radius)
