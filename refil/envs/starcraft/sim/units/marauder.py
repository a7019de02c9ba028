"""Marauder: sturdy, strong against armour, cannot shoot up."""

from dataclasses import replace

from refil.envs.starcraft.sim.unit import ARMOURED, BIOLOGICAL, SECOND, Unit

UNIT = Unit(
    letter="M",
    number=51,
    health=125.0,
    armour=1.0,
    attributes=ARMOURED | BIOLOGICAL,
    damage=10.0,
    bonus=10.0,
    bonus_against=ARMOURED,
    period=1.5 * SECOND,
    range=6.0,
    speed=2.25 / SECOND,
    radius=0.5625,
    body=0.5,
    cooldown_shown=25.0,
)
SMACLITE = replace(UNIT, period=18.0, speed=3.15 / SECOND, body=UNIT.radius)
