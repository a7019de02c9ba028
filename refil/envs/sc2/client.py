"""One game of StarCraft II in a process of its own, launched again whenever it fails."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from refil.envs.sc2 import install, messages
from refil.envs.sc2.connection import Connection
from refil.envs.sc2.install import Installation
from refil.envs.sc2.process import GameProcess
from refil.envs.sc2.records import (
    ALLY,
    Command,
    FirstOrders,
    GameEndedError,
    GameError,
    GameRefusedError,
    GameSetupError,
    MapInfo,
    Placement,
    Race,
    Units,
    no_orders,
)

LOG = logging.getLogger(__name__)
T = TypeVar("T")

LAST_TICK = 2**19  # a game ends there
RESERVE = 2**13  # ticks kept for one more battle of 1,000 steps
LAUNCHES = 3  # attempts before an error is final
ROUNDS = 20  # steps to wait for units to disappear or to appear
TICKS_TO_SPAWN, TICKS_TO_CONTROL = 2, 4  # as in the authors' environment
SEEDS_APART = 10_000  # between the random seeds of a game's launches; more games than run at once
# Results of commands that are no surprise: actions are available whatever the weapon can hit, as for a Marauder at a Medivac.
EXPECTED = ("Success", "CantTargetThatUnit", "CantTargetAirUnits", "MustTargetGroundUnits", "CantTargetFlyers")
_warned: set[str] = set()  # results of commands that this process has warned of


@dataclass(frozen=True)
class Timeouts:
    """Seconds after which a game counts as hung."""

    launch: float = 120.0  # until it opens its port
    load: float = 120.0  # until it has loaded the map
    request: float = 30.0  # until it answers any other request

    @classmethod
    def of_requests(cls, seconds: int) -> "Timeouts":
        """Return the timeouts that belong to one of ordinary requests: launching and loading may take four times as long."""
        return cls(4.0 * seconds, 4.0 * seconds, float(seconds))


class GameClient:
    """Plays battles in one game; see `refil.envs.sc2.records.Game`. Games are independent of each other and of threads."""

    def __init__(
        self,
        installation: Installation,
        seed: int = 0,
        timeouts: Timeouts | None = None,
        races: tuple[Race, Race] = ("Random", "Random"),  # of the player and of the computer
    ) -> None:
        self._installation, self._races = installation, races
        self._seed = seed
        self.timeouts = timeouts or Timeouts()
        self._protocol = install.protocol()
        self._process: GameProcess | None = None
        self._connection: Connection | None = None
        self._map: MapInfo | None = None
        self._units: Units | None = None
        self.launches = 0  # how often the game was launched
        self.refused: Counter[str] = Counter()  # results of commands that are not expected, by their names in the protocol

    def start(self) -> MapInfo:
        """Launch the game and return the map; a game that runs only returns it."""
        if self._connection is None or self._map is None:
            return self._with_relaunch(lambda: self._launch())
        return self._map

    def reset(self, placements: Sequence[Placement], orders: FirstOrders = no_orders) -> Units:
        """Kill all units, spawn exactly these, take control of the enemies, give the first orders, and return the units."""
        if self._units is not None and self._units.tick > LAST_TICK - RESERVE:
            self.close()

        def attempt() -> Units:
            self._map = self._launch() if self._connection is None else self._map
            self._clear()
            self._spawn(placements)
            self._debug([messages.control_enemy()])
            units = self._advance(TICKS_TO_CONTROL)
            self._act(orders(units))
            return units

        return self._with_relaunch(attempt)

    def step(self, commands: Sequence[Command], ticks: int) -> Units:
        """Give the commands, simulate this many ticks, and return the units."""
        try:
            self._act(commands)
            return self._advance(ticks)
        except GameError:
            self._kill()
            raise

    def close(self) -> None:
        """Ask the game to end, and kill it."""
        if self._connection is not None:
            self._connection.send_quit()
        self._kill()

    def _with_relaunch(self, play: Callable[[], T]) -> T:
        for attempt in range(1, LAUNCHES + 1):
            try:
                return play()
            except GameError as error:
                self._kill()
                if attempt == LAUNCHES or isinstance(error, GameSetupError):
                    raise
                LOG.warning("A game failed before a battle and is launched again (%s of %s): %s", attempt, LAUNCHES - 1, error)
            except BaseException:
                self._kill()
                raise
        raise AssertionError("unreachable")

    def _kill(self) -> None:
        process, connection = self._process, self._connection
        self._process = self._connection = self._units = None
        if process is not None:
            process.end()
        if connection is not None:
            connection.close()

    def _launch(self) -> MapInfo:
        self.launches += 1
        self._process = GameProcess(self._installation)
        self._connection = Connection(self._process, self.timeouts.launch)
        ping = self._request(ping=self._protocol.api.RequestPing())
        self._create()
        self._join()
        self._map = messages.map_info(self._request(game_info=self._protocol.api.RequestGameInfo()), ping)
        return self._map

    def _create(self) -> None:
        api, common, computer = self._protocol.api, self._protocol.common, self._races[1]
        create = api.RequestCreateGame(
            local_map=api.LocalMap(map_path=self._installation.map_path, map_data=self._installation.map_data),
            player_setup=[
                api.PlayerSetup(type=api.Participant),
                api.PlayerSetup(type=api.Computer, race=common.Race.Value(computer), difficulty=api.VeryHard),
            ],
            realtime=False,
            random_seed=(self._seed + SEEDS_APART * (self.launches - 1)) % 2**32,  # another one after each launch
        )
        answer = self._request(self.timeouts.load, create_game=create)
        if answer.HasField("error"):
            reason = api.ResponseCreateGame.Error.Name(answer.error)
            detail = f" ({answer.error_details})" if answer.error_details else ""
            raise GameSetupError(f"StarCraft II cannot play {self._installation.map_path}: {reason}{detail}")

    def _join(self) -> None:
        api, race = self._protocol.api, self._protocol.common.Race.Value(self._races[0])
        join = api.RequestJoinGame(race=race, options=api.InterfaceOptions(raw=True, score=False))
        answer = self._request(self.timeouts.load, join_game=join)
        if answer.HasField("error"):
            raise GameRefusedError(f"StarCraft II lets nobody join: {api.ResponseJoinGame.Error.Name(answer.error)}")
        if answer.player_id != ALLY:
            raise GameSetupError(f"the player has number {answer.player_id} in {self._installation.map_path}, not {ALLY}")

    def _clear(self) -> None:
        units = self._observe()
        for _ in range(ROUNDS):
            if not len(units):
                return
            self._debug([messages.kill_units(units.tag.tolist())])
            units = self._advance(TICKS_TO_SPAWN)
        raise GameRefusedError(f"StarCraft II does not remove {len(units)} units")

    def _spawn(self, placements: Sequence[Placement]) -> None:
        wanted = Counter((each.type_id, each.owner) for each in placements)
        self._debug(messages.create_units(placements))
        found: Counter[tuple[int, int]] = Counter()
        for _ in range(ROUNDS):
            units = self._advance(TICKS_TO_SPAWN)
            found = Counter(zip(units.type_id.tolist(), units.owner.tolist(), strict=True))
            if found == wanted:
                return
        missing, surplus = dict(wanted - found), dict(found - wanted)
        message = f"StarCraft II did not spawn the units that were placed: missing {missing}, surplus {surplus} (type, owner)"
        unknown = {type_id for type_id, _ in wanted} - {type_id for type_id, _ in found}
        kind = GameSetupError if unknown else GameRefusedError  # without any unit of a type, another launch does not help
        raise kind(f"{message}; does {self._installation.map_path} have these unit types?")

    def _advance(self, ticks: int) -> Units:
        if ticks:
            self._request(step=self._protocol.api.RequestStep(count=ticks))
        return self._observe()

    def _act(self, commands: Sequence[Command]) -> None:
        if not commands:
            return
        actions = [messages.unit_command(command) for command in commands]
        answer = self._request(action=self._protocol.api.RequestAction(actions=actions))
        for command, result in zip(commands, answer.result, strict=False):
            name = messages.result_name(result)
            if name not in EXPECTED:
                self.refused[name] += 1
                if name not in _warned:
                    _warned.add(name)
                    LOG.warning("StarCraft II refused a command: %s to %s; further ones are only counted", name, command)

    def _observe(self) -> Units:
        answer = self._request(observation=self._protocol.api.RequestObservation())
        if answer.player_result:
            raise GameEndedError(f"the game of StarCraft II has ended at tick {answer.observation.game_loop}")
        self._units = messages.units(answer.observation)
        return self._units

    def _debug(self, commands: list) -> None:
        self._request(debug=self._protocol.api.RequestDebug(debug=commands))

    def _request(self, timeout: float | None = None, **content):
        if self._connection is None:
            raise GameError("the game of StarCraft II does not run; reset it first")
        return self._connection.request(timeout or self.timeouts.request, **content)
