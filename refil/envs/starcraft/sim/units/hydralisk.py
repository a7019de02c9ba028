"""Hydralisk: shoots fast and at everything, and is frail."""

from refil.envs.starcraft.sim.unit import AIR, BIOLOGICAL, GROUND, LIGHT, SECOND, Unit

UNIT = Unit(
    letter="h",
    number=107,
    health=80.0,
    health_regained=0.2734 / SECOND,
    attributes=LIGHT | BIOLOGICAL,
    damage=12.0,
    hits=GROUND | AIR,
    period=0.83 * SECOND,
    range=5.0,
    speed=2.25 / SECOND,
    radius=0.625,
    body=0.5,
    cooldown_shown=10.0,
)
SMACLITE = None
