"""Marine: cheap, quick to shoot, shoots at everything."""

from dataclasses import replace

from refil.envs.starcraft.sim.unit import AIR, BIOLOGICAL, GROUND, LIGHT, SECOND, Unit

UNIT = Unit(
    letter="m",
    number=48,
    health=45.0,
    attributes=LIGHT | BIOLOGICAL,
    damage=6.0,
    hits=GROUND | AIR,
    period=0.8608 * SECOND,
    range=5.0,
    speed=2.25 / SECOND,
    radius=0.375,
    body=0.375,
    cooldown_shown=15.0,
)
SMACLITE = replace(UNIT, period=10.0, speed=3.15 / SECOND)
