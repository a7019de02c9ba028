"""Medivac: flying, unarmed, heals biological units."""

from dataclasses import replace

from refil.envs.starcraft.sim.unit import AIR, ARMORED, IN_AIR, SECOND, Unit

UNIT = Unit(
    letter="v",
    shape="cross",
    type_id=54,
    max_health=150.0,
    armor=1.0,
    attributes=ARMORED,
    plane=AIR,
    collision_layers=IN_AIR,
    target_planes=0,
    range=4.0,
    heal_rate=9.0 / SECOND,
    heal_cost=0.33,
    start_energy=50.0,
    max_energy=200.0,
    energy_regen=0.5625 / SECOND,
    speed=2.75 / SECOND,
    acceleration=2.3125 / SECOND**2,
    radius=0.75,
    collision_radius=0.75,
    max_cooldown=200.0,
)
SMACLITE = replace(UNIT, speed=3.5 / SECOND, acceleration=0.0, heal_cost=1 / 3)
