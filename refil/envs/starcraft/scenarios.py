"""Who may fight whom: the paper's task sets, the authors' other ones, and SMAC's classic maps. No JAX in here."""

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from refil.errors import RefilError

Army = dict[str, int]  # how many of each unit, by letter
ARMY = r"([1-9]\d*[A-Za-z]+)+"  # its name


@dataclass(frozen=True)
class Scenario:
    """Pairs of armies, one of which is drawn for each battle."""

    tasks: Callable[[], list[tuple[Army, Army]]]
    limit: int  # steps
    ground: Literal["any_angle", "strip", "whole"] = "any_angle"  # of the map, and where the armies start


def mirror(armies: list[Army]) -> list[tuple[Army, Army]]:
    """Each army against its like."""
    return [(army, army) for army in armies]


def mixed(letters: str, fewest: int, most: int, beside: str = "") -> list[tuple[Army, Army]]:
    """All armies of so many units of these letters, with none, one or two of another unit beside them."""
    armies = []
    for size in range(fewest, most + 1):
        for units in itertools.combinations_with_replacement(letters, size):
            for extra in range(3) if beside else (0,):
                army = {letter: units.count(letter) for letter in letters} | {beside: extra}
                armies.append({letter: count for letter, count in army.items() if count})
    return mirror(armies)


def outnumbered(letter: str, fewest: int, most: int) -> list[tuple[Army, Army]]:
    """Against one unit more."""
    return [({letter: count - 1}, {letter: count}) for count in range(fewest, most + 1)]


def classic(battle: str, limit: int, ground: Literal["strip", "whole"] = "strip") -> Scenario:
    """One of SMAC's maps: armies start in the west and in the east."""
    return Scenario(lambda: [versus(battle)], limit, ground)


SCENARIOS = {
    "3-8sz": Scenario(lambda: mixed("sz", 3, 8), 150),
    "3-8csz": Scenario(lambda: mixed("sz", 3, 6, beside="c"), 150),
    "3-8MMM": Scenario(lambda: mixed("mM", 3, 6, beside="v"), 150),
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
    "2c_vs_64zg": classic("2c_vs_64zg", 400, "whole"),  # without the original's cliffs
}


def free(battle: str, limit: int = 150) -> Scenario:
    """Any two armies, placed as in the paper's sets."""
    return Scenario(lambda: [versus(battle)], limit)


def is_battle(name: str) -> bool:
    """Whether a name is written like one."""
    return re.fullmatch(rf"{ARMY}(_vs_{ARMY})?", name) is not None


def versus(battle: str) -> tuple[Army, Army]:
    """The armies of a battle: `3s5z` against its like, `3s5z_vs_3s6z` against another."""
    ally, _, enemy = battle.partition("_vs_")
    return read(ally), read(enemy or ally)


def read(army: str) -> Army:
    """An army from its name: numbers and letters, `3s5z`."""
    if not re.fullmatch(ARMY, army):
        raise RefilError(f"{army!r} is no army; write numbers and letters, as in 3s5z")
    counts: Army = {}
    for count, letter in re.findall(r"(\d+)([A-Za-z]+)", army):
        counts[letter] = counts.get(letter, 0) + int(count)
    return counts


def name(army: Army) -> str:
    """An army's name."""
    return "".join(f"{count}{letter}" for letter, count in army.items())


def battle_name(ally: Army, enemy: Army) -> str:
    """What a task is called."""
    return name(ally) if ally == enemy else f"{name(ally)}_vs_{name(enemy)}"
