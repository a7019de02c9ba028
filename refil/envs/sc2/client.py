"""One game of StarCraft II in a process of its own, launched again whenever it fails."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from refil.envs.sc2 import install, messages
from refil.envs.sc2.connection import Connection
from refil.envs.sc2.install import Installation
from refil.envs.sc2.process import GameProcess
from refil.envs.sc2.records import ALLY, Command, GameEndedError, GameError, GameRefusedError, MapInfo, Placement, Units

T = TypeVar("T")

LAST_TICK = 2**19  # a game ends there
RESERVE = 2**13  # ticks kept for one more battle of 1,000 steps
LAUNCHES = 3  # attempts before an error is final
ROUNDS = 20  # steps to wait for units to disappear or to appear
TICKS_TO_SPAWN, TICKS_TO_CONTROL = 2, 4  # as in the authors' environment


@dataclass(frozen=True)
class Timeouts:
    """Seconds after which a game counts as hung."""

    launch: float = 120.0  # until it opens its port
    load: float = 120.0  # until it has loaded the map
    request: float = 30.0  # until it answers any other request


class GameClient:
    """Plays battles in one game; see `refil.envs.sc2.records.Game`. Games are independent of each other and of threads."""

    def __init__(self, installation: Installation, seed: int = 0, timeouts: Timeouts | None = None) -> None:
        self._installation = installation
        self._seed = seed
        self.timeouts = timeouts or Timeouts()
        self._protocol = install.protocol()
        self._process: GameProcess | None = None
        self._connection: Connection | None = None
        self._map: MapInfo | None = None
        self._units: Units | None = None
        self.launches = 0  # how often the game was launched

    def start(self) -> MapInfo:
        """Launch the game and return the map; a game that runs only returns it."""
        if self._connection is None or self._map is None:
            return self._with_relaunch(lambda: self._launch())
        return self._map

    def reset(self, placements: Sequence[Placement]) -> Units:
        """Kill all units, spawn exactly these, take control of the enemies, and return the units."""
        if self._units is not None and self._units.tick > LAST_TICK - RESERVE:
            self.close()

        def attempt() -> Units:
            self._map = self._launch() if self._connection is None else self._map
            self._clear()
            self._spawn(placements)
            self._debug([messages.control_enemy()])
            return self._advance(TICKS_TO_CONTROL)

        return self._with_relaunch(attempt)

    def step(self, commands: Sequence[Command], ticks: int) -> Units:
        """Give the commands, simulate this many ticks, and return the units."""
        try:
            if commands:
                actions = [messages.unit_command(command) for command in commands]
                self._request(action=self._protocol.api.RequestAction(actions=actions))
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
            except GameError:
                self._kill()
                if attempt == LAUNCHES:
                    raise
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
        api, common = self._protocol.api, self._protocol.common
        create = api.RequestCreateGame(
            local_map=api.LocalMap(map_path=self._installation.map_path, map_data=self._installation.map_data),
            player_setup=[
                api.PlayerSetup(type=api.Participant),
                api.PlayerSetup(type=api.Computer, race=common.Random, difficulty=api.VeryHard),
            ],
            realtime=False,
            random_seed=self._seed + self.launches - 1,  # another sequence after each launch
        )
        answer = self._request(self.timeouts.load, create_game=create)
        if answer.HasField("error"):
            reason = api.ResponseCreateGame.Error.Name(answer.error)
            detail = f" ({answer.error_details})" if answer.error_details else ""
            raise GameRefusedError(f"StarCraft II cannot play {self._installation.map_path}: {reason}{detail}")

    def _join(self) -> None:
        api = self._protocol.api
        join = api.RequestJoinGame(race=self._protocol.common.Random, options=api.InterfaceOptions(raw=True, score=False))
        answer = self._request(self.timeouts.load, join_game=join)
        if answer.HasField("error"):
            raise GameRefusedError(f"StarCraft II lets nobody join: {api.ResponseJoinGame.Error.Name(answer.error)}")
        if answer.player_id != ALLY:
            raise GameRefusedError(f"the player has number {answer.player_id} in {self._installation.map_path}, not {ALLY}")

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
        raise GameRefusedError(f"{message}; does {self._installation.map_path} have these unit types?")

    def _advance(self, ticks: int) -> Units:
        if ticks:
            self._request(step=self._protocol.api.RequestStep(count=ticks))
        return self._observe()

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
