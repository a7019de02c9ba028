"""Marine: cheap, fast ranged attack against ground and air."""

from dataclasses import replace

from refil.envs.starcraft.sim.unit import AIR, BIOLOGICAL, GROUND, LIGHT, SECOND, Unit

UNIT = Unit(
    letter="m",
    type_id=48,
    max_health=45.0,
    attributes=LIGHT | BIOLOGICAL,
    damage=6.0,
    target_planes=GROUND | AIR,
    attack_period=0.8608 * SECOND,
    range=5.0,
    speed=2.25 / SECOND,
    radius=0.375,
    collision_radius=0.375,
    max_cooldown=15.0,
)
SMACLITE = replace(UNIT, attack_period=10.0, speed=3.15 / SECOND)
