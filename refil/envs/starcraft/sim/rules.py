"""Rules that are not a unit's: SMAC's as far as they are known, and SMAClite's for comparison.

The fields under "open" are points that no source settles (docs/fidelity.md).
"""

from dataclasses import dataclass

LOOPS = 8  # game loops in a step of the environment
SIGHT = 9.0  # centre to centre, all units alike
ORDER_RANGE = 6.0  # targets an agent may choose, centre to centre
STRIDE = 2.0  # how far away the point lies that a move action walks to
QUIET = 160  # loops without harm until shields come back
REACH_OF_HEALING = 6.0  # how far a roaming healer looks
ENERGY_TO_START = 5.0  # for a roaming healer
JITTER = (-1.0, 2.0)  # loops added to a cooldown, at random


@dataclass(frozen=True)
class Rules:
    """How battles go."""

    scan: float = 5.0  # roaming units notice foes this far away, or as far as they shoot
    scan_from_edge: bool = True  # else from the unit's centre to the foe's edge, whatever it shoots
    healers_first: bool = False  # roaming units prefer healers
    answers: bool = False  # roaming units go for whoever goes for them, and hold on to him while he does
    least_damage: float = 0.5  # of a hit that reaches health
    shots_at_corpses: bool = False  # a shot at one who died in this step is spent
    healers_follow: bool = False  # roaming healers stay with friends who fight, and do not overtake those who walk
    heal_by_share: bool = True  # roaming healers go for the lowest share of health, else for the lowest health
    turning: float = 110.0  # degrees off their course that units turn to get around others
    jitter: bool = True
    acceleration: bool = True
    # Open:
    idle_yields: float = 0.3  # how readily idle units let friends push them; 1 is as one who walks
    leash: float = 21.0  # how far a roaming unit pursues who hurt it
    refused_keeps_order: bool = True  # after an order that cannot be carried out the old one holds; else the unit stands


SMAC = Rules()
SMACLITE = Rules(
    scan_from_edge=False,
    healers_first=True,
    answers=True,
    least_damage=0.0,
    shots_at_corpses=True,
    healers_follow=True,
    heal_by_share=False,
    turning=50.0,
    jitter=False,
    idle_yields=0.0,
    leash=0.0,
    refused_keeps_order=False,
)
