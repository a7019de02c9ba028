"""Medivac: flies, unarmed, mends what is alive and walks."""

from dataclasses import replace

from refil.envs.starcraft.sim.unit import AIR, ARMOURED, IN_AIR, SECOND, Unit

UNIT = Unit(
    letter="v",
    number=54,
    health=150.0,
    armour=1.0,
    attributes=ARMOURED,
    plane=AIR,
    collides=IN_AIR,
    hits=0,
    range=4.0,
    heal=9.0 / SECOND,
    heal_cost=0.33,
    energy=50.0,
    energy_most=200.0,
    energy_regained=0.5625 / SECOND,
    speed=2.75 / SECOND,
    acceleration=2.3125 / SECOND**2,
    radius=0.75,
    body=0.75,
    cooldown_shown=200.0,
)
SMACLITE = replace(UNIT, speed=3.5 / SECOND, acceleration=0.0, heal_cost=1 / 3)
