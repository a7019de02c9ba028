"""Rules that do not belong to a unit type: SMAC's as far as they are known, and SMAClite's for comparison.

The fields under "open" are points that no source settles (docs/fidelity.md).
"""

from dataclasses import dataclass

TICKS_PER_STEP = 8  # game ticks in one environment step
SIGHT_RANGE = 9.0  # center to center, the same for all unit types
TARGET_RANGE = 6.0  # center to center: how far away a unit may be that an agent can choose as its target
MOVE_DISTANCE = 2.0  # distance of the point that a move action walks to
SHIELD_DELAY = 160  # ticks without damage until shields regenerate
HEAL_SCAN_RANGE = 6.0  # edge to edge: how far away an attack-moving healer looks for damaged units
MIN_HEAL_ENERGY = 5.0  # energy that an attack-moving healer needs to start healing
COOLDOWN_JITTER = (-1.0, 2.0)  # range of the random number of ticks added to the weapon cooldown


@dataclass(frozen=True)
class Rules:
    """Rules of the simulator. Attack-moving units choose their targets themselves, as all enemies do."""

    scan_range: float = 5.0  # attack-moving units notice enemies within this or their weapon's range, whichever is longer
    scan_from_edge: bool = True  # measured edge to edge; otherwise from center to the enemy's edge, whatever the weapon
    prefer_healers: bool = False  # attack-moving units attack healers first
    retaliate: bool = False  # attack-moving units target whoever targets them, at any distance, for as long as it does
    min_damage: float = 0.5  # least damage of a hit that reaches health
    shots_at_corpses: bool = False  # a weapon also fires at a target that died in this step
    healers_follow: bool = False  # attack-moving healers stay with fighting allies and do not overtake walking ones
    heal_lowest_fraction: bool = True  # attack-moving healers heal the lowest fraction of health, otherwise the lowest health
    max_turn: float = 110.0  # degrees by which units turn off their course to get around others
    jitter: bool = True  # weapon cooldowns are random
    acceleration: bool = True  # units with an acceleration take time to reach full speed
    # Open:
    idle_push: float = 0.3  # fraction of an ally's speed at which it pushes idle units out of its way
    leash: float = 21.0  # edge to edge: how far away an attack-moving unit pursues its last attacker
    invalid_keeps_order: bool = True  # after an order that cannot be executed the last one stays; otherwise the unit stops


SMAC = Rules()
SMACLITE = Rules(
    scan_from_edge=False,
    prefer_healers=True,
    retaliate=True,
    min_damage=0.0,
    shots_at_corpses=True,
    healers_follow=True,
    heal_lowest_fraction=False,
    max_turn=50.0,
    jitter=False,
    idle_push=0.0,
    leash=0.0,
    invalid_keeps_order=False,
)
