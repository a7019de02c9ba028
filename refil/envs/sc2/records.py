"""The interface of one game of StarCraft II: its unit table, spawns and commands as plain records, and its errors.

Nothing here needs the game's protocol, so that code for the environment imports this file alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Int, UInt64

from refil.errors import RefilError

ALLY, ENEMY = 1, 2  # owners

Race = Literal["Random", "Terran", "Zerg", "Protoss"]
STOP, MOVE, ATTACK, HEAL = 4, 16, 23, 386  # ability IDs; attacking a position is an attack-move

# The map's passive copies of nine unit types, for allies: they do nothing unless ordered. Enemies are the game's own types,
# whose IDs the simulator's unit types have.
PASSIVE_IDS = {
    "baneling": 1935,
    "colossus": 1936,
    "hydralisk": 1937,
    "marauder": 1938,
    "marine": 1939,
    "medivac": 1940,
    "stalker": 1941,
    "zealot": 1942,
    "zergling": 1943,
}

RACES: dict[str, Race] = {
    "marine": "Terran",
    "marauder": "Terran",
    "medivac": "Terran",
    "stalker": "Protoss",
    "zealot": "Protoss",
    "colossus": "Protoss",
    "baneling": "Zerg",
    "hydralisk": "Zerg",
    "spine_crawler": "Zerg",
    "zergling": "Zerg",
}


@dataclass(frozen=True)
class Units:
    """The living units of both teams in one observation, in the game's order."""

    tag: UInt64[np.ndarray, " units"]  # the game's identifier of each unit, unique within a game
    type_id: Int[np.ndarray, " units"]
    owner: Int[np.ndarray, " units"]  # ALLY or ENEMY
    x: Float32[np.ndarray, " units"]
    y: Float32[np.ndarray, " units"]
    health: Float32[np.ndarray, " units"]
    shield: Float32[np.ndarray, " units"]
    energy: Float32[np.ndarray, " units"]
    cooldown: Float32[np.ndarray, " units"]  # ticks until the weapon can fire again
    radius: Float32[np.ndarray, " units"]
    health_max: Float32[np.ndarray, " units"]
    shield_max: Float32[np.ndarray, " units"]
    flying: Bool[np.ndarray, " units"]
    tick: int  # ticks since the game was created

    def __len__(self) -> int:
        return len(self.tag)


@dataclass(frozen=True)
class Placement:
    """One unit to spawn; the game moves units that would overlap apart."""

    type_id: int
    owner: int  # ALLY or ENEMY
    x: float
    y: float


@dataclass(frozen=True)
class Command:
    """One order to some units, aimed at a unit, at a position, or (both None) at nothing."""

    ability_id: int
    tags: tuple[int, ...]
    target_tag: int | None = None
    position: tuple[float, float] | None = None


@dataclass(frozen=True)
class MapInfo:
    """The map, and the version of the game that plays it; grids are indexed [x, y] from the southwestern corner."""

    version: str
    build: int
    playable_area: tuple[int, int, int, int]  # west, south, east, north
    pathing: Bool[np.ndarray, "x y"]  # whether units can walk there
    terrain_height: Float32[np.ndarray, "x y"]  # heights from 0 to 1


FirstOrders = Callable[[Units], Sequence[Command]]  # what the enemies do in a new battle, given its units


def no_orders(_: Units) -> Sequence[Command]:
    """Return no commands."""
    return ()


@runtime_checkable
class Game(Protocol):
    """One game that is played battle by battle.

    `step` raises a `GameError` when the battle is lost with its process; the next `reset` launches the game again.
    """

    def start(self) -> MapInfo:
        """Launch the game and return the map; a game that runs only returns it."""
        ...

    def reset(self, placements: Sequence[Placement], orders: FirstOrders = no_orders) -> Units:
        """Kill all units, spawn exactly these, take control of the enemies, give the first orders, and return the units.

        It launches the game first if that has not been done, if it failed, or if it nears its last tick. Orders take effect
        in the next tick.
        """
        ...

    def step(self, commands: Sequence[Command], ticks: int) -> Units:
        """Give the commands, simulate this many ticks, and return the units; commands take effect in the next tick."""
        ...

    def close(self) -> None:
        """End the game; closing it twice does nothing."""
        ...


class InstallError(RefilError):
    """The game, its map, or a library that is needed to speak to it is not installed."""


class GameError(RefilError):
    """A battle was lost because the game failed; a `reset` launches it again."""


class GameCrashedError(GameError):
    """The game's process ended, closed the connection, or answered with something that is not its protocol."""


class GameTimeoutError(GameError):
    """The game did not answer in time."""


class GameRefusedError(GameError):
    """The game answered a request with an error."""


class GameSetupError(GameRefusedError):
    """The game cannot play these battles, however often it is launched: its map or its unit types are others."""


class GameEndedError(GameError):
    """The game has ended, as it does after its last tick."""
