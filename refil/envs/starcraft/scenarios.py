"""Scenarios: the paper's task sets, the authors' other ones, and SMAC's classic maps. Imports no JAX."""

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from refil.errors import RefilError

Army = dict[str, int]  # number of units of each type, by letter
ARMY_PATTERN = r"([1-9]\d*[A-Za-z]+)+"
LETTERS = (
    "m Marine, M Marauder, v Medivac, s Stalker, z Zealot, c Colossus, h Hydralisk, zg Zergling, b Baneling, sc Spine Crawler"
)

Stat = Literal["health", "damage", "range", "speed"]  # stats that can vary


@dataclass(frozen=True)
class Scenario:
    """A set of tasks: pairs of an allied and an enemy army."""

    tasks: Callable[[], list[tuple[Army, Army]]]
    limit: int  # steps after which a battle ends
    arena: Literal["any_angle", "strip", "whole"] = "any_angle"  # key of `sim.state.ARENAS`
    split: str = ""  # name of the set in `splits.json`, if it is there
    vary: tuple[Stat, ...] = ()  # stats that vary if the options name none


def mirrored(armies: list[Army]) -> list[tuple[Army, Army]]:
    """Return tasks in which each army fights a copy of itself."""
    return [(army, army) for army in armies]


def mixed(letters: str, smallest: int, largest: int, support: str = "") -> list[tuple[Army, Army]]:
    """Return mirrored tasks for all armies of these unit types and sizes, with zero to two additional `support` units."""
    armies = []
    for size in range(smallest, largest + 1):
        for units in itertools.combinations_with_replacement(letters, size):
            for extra in range(3) if support else (0,):
                army = {letter: units.count(letter) for letter in letters} | {support: extra}
                armies.append({letter: count for letter, count in army.items() if count})
    return mirrored(armies)


def of_size(tasks: list[tuple[Army, Army]], smallest: int, largest: int) -> list[tuple[Army, Army]]:
    """Return the tasks whose allied army has these numbers of units."""
    return [(ally, enemy) for ally, enemy in tasks if smallest <= sum(ally.values()) <= largest]


def outnumbered(letter: str, smallest: int, largest: int) -> list[tuple[Army, Army]]:
    """Return tasks against enemy armies of these sizes, with one ally less."""
    return [({letter: count - 1}, {letter: count}) for count in range(smallest, largest + 1)]


def classic(task: str, limit: int, arena: Literal["strip", "whole"] = "strip") -> Scenario:
    """Return one of SMAC's maps: allies start in the west, enemies in the east."""
    return Scenario(lambda: [parse_task(task)], limit, arena)


SCENARIOS = {
    "3-8sz": Scenario(lambda: mixed("sz", 3, 8), 150, split="3-8sz"),
    "3-8csz": Scenario(lambda: mixed("sz", 3, 6, support="c"), 150, split="3-8csz"),
    "3-8MMM": Scenario(lambda: mixed("mM", 3, 6, support="v"), 150, split="3-8MMM"),
    "9-12sz": Scenario(lambda: mixed("sz", 9, 12), 150),  # larger than the paper's, for teams trained with --env.tags 12
    "9-12MMM": Scenario(lambda: of_size(mixed("mM", 7, 12, support="v"), 9, 12), 150),
    "3-8sz-varied": Scenario(lambda: mixed("sz", 3, 8), 150, split="3-8sz", vary=get_args(Stat)),
    "2-4m": Scenario(lambda: mixed("m", 2, 4), 60),  # a small set, learned on a laptop in minutes
    "3-8m": Scenario(lambda: mixed("m", 3, 8), 100),
    "6-11m_mandown": Scenario(lambda: outnumbered("m", 6, 11), 100),
    "3m": classic("3m", 60),
    "8m": classic("8m", 120),
    "25m": classic("25m", 150),
    "5m_vs_6m": classic("5m_vs_6m", 70),
    "8m_vs_9m": classic("8m_vs_9m", 120),
    "10m_vs_11m": classic("10m_vs_11m", 150),
    "27m_vs_30m": classic("27m_vs_30m", 180),
    "2s3z": classic("2s3z", 120),
    "3s5z": classic("3s5z", 150),
    "3s5z_vs_3s6z": classic("3s5z_vs_3s6z", 170),
    "3s_vs_3z": classic("3s_vs_3z", 150, "whole"),
    "3s_vs_4z": classic("3s_vs_4z", 200, "whole"),
    "3s_vs_5z": classic("3s_vs_5z", 250, "whole"),
    "1c3s5z": classic("1c3s5z", 180),
    "MMM": classic("1v2M7m", 150),
    "MMM2": classic("1v2M7m_vs_1v3M8m", 180),
    "2m_vs_1z": classic("2m_vs_1z", 150, "whole"),
    "6h_vs_8z": classic("6h_vs_8z", 150, "whole"),
    "2s_vs_1sc": classic("2s_vs_1sc", 300, "whole"),
    "so_many_baneling": classic("7z_vs_32b", 100, "whole"),
    "bane_vs_bane": classic("20zg4b", 200, "whole"),
    "2c_vs_64zg": classic("2c_vs_64zg", 400, "whole"),  # without the cliffs of the original
}


def custom(task: str, limit: int = 150) -> Scenario:
    """Return a scenario of any two armies, placed as in the paper's task sets."""
    return Scenario(lambda: [parse_task(task)], limit)


def is_task_name(name: str) -> bool:
    """Return whether a name has the form `3s5z` or `3s5z_vs_3s6z`."""
    return re.fullmatch(rf"{ARMY_PATTERN}(_vs_{ARMY_PATTERN})?", name) is not None


def parse_task(task: str) -> tuple[Army, Army]:
    """Return the armies of a task: `3s5z` fights a copy of itself, `3s5z_vs_3s6z` another army."""
    ally, _, enemy = task.partition("_vs_")
    return parse_army(ally), parse_army(enemy or ally)


def parse_army(name: str) -> Army:
    """Return the army of a name such as `3s5z`."""
    if not re.fullmatch(ARMY_PATTERN, name):
        raise RefilError(f"{name!r} is not an army; write numbers and letters, as in 3s5z ({LETTERS})")
    counts: Army = {}
    for count, letter in re.findall(r"(\d+)([A-Za-z]+)", name):
        counts[letter] = counts.get(letter, 0) + int(count)
    return counts


def army_name(army: Army) -> str:
    """Return the name of an army."""
    return "".join(f"{count}{letter}" for letter, count in army.items())


def task_name(ally: Army, enemy: Army) -> str:
    """Return the name of a task."""
    return army_name(ally) if ally == enemy else f"{army_name(ally)}_vs_{army_name(enemy)}"
