"""Stalker: fast, shoots far and at everything."""

from dataclasses import replace

from refil.envs.starcraft.sim.unit import AIR, ARMOURED, GROUND, SECOND, Unit

UNIT = Unit(
    letter="s",
    number=74,
    health=80.0,
    shield=80.0,
    armour=1.0,
    attributes=ARMOURED,
    damage=10.0,
    bonus=4.0,
    bonus_against=ARMOURED,
    hits=GROUND | AIR,
    period=1.44 * SECOND,
    range=6.0,
    speed=2.9531 / SECOND,
    radius=0.625,
    body=0.625,
    cooldown_shown=35.0,
)
SMACLITE = replace(UNIT, damage=13.0, bonus=5.0, period=22.0, speed=4.13 / SECOND)
