"""Zergling: fast, weak, many."""

from dataclasses import replace

from refil.envs.starcraft.sim.unit import BIOLOGICAL, LIGHT, SECOND, Unit

UNIT = Unit(
    letter="zg",
    number=105,
    health=35.0,
    health_regained=0.2734 / SECOND,
    attributes=LIGHT | BIOLOGICAL,
    damage=5.0,
    period=0.696 * SECOND,
    range=0.1,
    speed=2.9531 / SECOND,
    radius=0.375,
    body=0.375,
    cooldown_shown=11.0,
)
SMACLITE = replace(UNIT, period=8.0, speed=4.13 / SECOND)
