"""Baneling: explodes, damages every enemy around it, and dies."""

from dataclasses import replace

from jaxtyping import Array, Bool

from refil.envs.starcraft.sim.state import norm
from refil.envs.starcraft.sim.unit import BIOLOGICAL, LIGHT, SECOND, Shots, Unit

BLAST_RADIUS = 2.2  # from the Baneling's center to a victim's edge


def explode(shots: Shots) -> Bool[Array, "units units *batch"]:
    """Damage every enemy on the ground near the Baneling."""
    return shots.attackable & (norm(shots.offset_x, shots.offset_y) - shots.radius[None] <= BLAST_RADIUS)


UNIT = Unit(
    letter="b",
    shape="burr",
    type_id=9,
    max_health=30.0,
    health_regen=0.2734 / SECOND,
    attributes=BIOLOGICAL,
    damage=20.0,
    bonus_damage=15.0,
    bonus_against=LIGHT,
    range=0.25,
    attack_period=1.0,  # it never attacks twice
    effect=explode,
    dies_attacking=True,
    speed=2.5 / SECOND,
    radius=0.375,
    collision_radius=0.375,
)
SMACLITE = replace(UNIT, damage=80.0, bonus_damage=0.0, speed=3.15 / SECOND)
