"""Baneling: bursts, hurting every foe around it, and is gone."""

from dataclasses import replace

from jaxtyping import Array, Bool

from refil.envs.starcraft.sim.state import length
from refil.envs.starcraft.sim.unit import BIOLOGICAL, LIGHT, SECOND, Shots, Unit

BLAST = 2.2  # from the Baneling's centre to a victim's edge


def burst(shots: Shots) -> Bool[Array, "units units *batch"]:
    """Every foe on the ground near the Baneling itself."""
    return shots.hittable & (length(shots.offset_x, shots.offset_y) - shots.radius[None] <= BLAST)


UNIT = Unit(
    letter="b",
    number=9,
    health=30.0,
    health_regained=0.2734 / SECOND,
    attributes=BIOLOGICAL,
    damage=20.0,
    bonus=15.0,
    bonus_against=LIGHT,
    range=0.25,
    period=1.0,  # it never comes to a second shot
    effect=burst,
    dies_attacking=True,
    speed=2.5 / SECOND,
    radius=0.375,
    body=0.375,
)
SMACLITE = replace(UNIT, damage=80.0, bonus=0.0, speed=3.15 / SECOND)
