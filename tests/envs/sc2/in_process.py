"""Games in this process, without protocol: the battle behind the peer, as the environment uses a game."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from refil.envs.sc2.config import Config
from refil.envs.sc2.env import StarCraft2, build
from refil.envs.sc2.peer.battle import Battle, Simulator
from refil.envs.sc2.records import GameCrashedError, MapInfo, Units, no_orders
from refil.envs.starcraft import env as starcraft
from refil.envs.starcraft import scenarios
from refil.envs.starcraft.config import Config as SimulatorConfig
from refil.envs.starcraft.sim.unit import AIR, UnitTable

Change = Callable[[starcraft.StarCraft], starcraft.StarCraft]


def with_constants(unit: str, **constants) -> Change:
    """Return the change of some constants of a unit type."""

    def change(env: starcraft.StarCraft) -> starcraft.StarCraft:
        table = env.game.table
        units = [
            replace(each, **constants) if name == unit else each for name, each in zip(table.names, table.units, strict=True)
        ]
        return replace(env, game=replace(env.game, table=UnitTable(table.names, tuple(units))))

    return change


class InProcess:
    """One game; `crashes` are the steps, counted from its start, at which it fails."""

    def __init__(self, simulator: Simulator, number: int = 0, crashes: tuple[int, ...] = ()) -> None:
        self.battle, self.crashes = Battle(simulator, number), crashes
        self.steps = self.resets = 0
        self.results: list[int] = []
        self.closed = False

    def start(self) -> MapInfo:
        grid = np.ones((32, 32))
        return MapInfo("in process", 0, (0, 0, 32, 32), grid.astype(bool), np.zeros((32, 32), np.float32))

    def reset(self, placements, orders=no_orders) -> Units:
        self.resets += 1
        self.battle.kill(self.battle.tags.tolist())
        self.battle.spawn(placements)
        units = self.units()
        self.give(orders(units))
        return units

    def step(self, commands, ticks) -> Units:
        self.steps += 1
        if self.steps in self.crashes:
            raise GameCrashedError("the test lets it crash")
        self.give(commands)
        self.battle.advance(ticks)
        return self.units()

    def give(self, commands) -> None:
        self.results = [self.battle.command(command, commands_enemies=True) for command in commands]

    def close(self) -> None:
        self.closed = True

    def units(self) -> Units:
        battle, slots = self.battle, self.battle.alive()
        state, types = battle.state, [battle.unit(slot) for slot in slots]
        column = {name: getattr(state, name)[slots] for name in ("x", "y", "health", "shield", "energy", "cooldown")}
        return Units(
            tag=battle.tags[slots],
            type_id=battle.type_ids[slots],
            owner=battle.owners[slots],
            **column,
            radius=np.array([unit.radius for unit in types], np.float32),
            health_max=np.array([unit.max_health for unit in types], np.float32),
            shield_max=np.array([unit.max_shield for unit in types], np.float32),
            flying=np.array([unit.plane == AIR for unit in types], bool),
            tick=battle.tick,
        )


def environment(
    name: str, games: int = 4, crashes: dict[int, tuple[int, ...]] | None = None, change: Change = lambda env: env, **options
) -> StarCraft2:
    """Return an environment whose games run in this process.

    `crashes` are those of some games, by their number, and `change` replaces the simulator behind all games.
    """
    scenario = scenarios.SCENARIOS.get(name) or scenarios.custom(name)
    simulator = Simulator(change(starcraft.build(scenario, SimulatorConfig())))
    simulator.compile()  # once, before threads need it
    planned = crashes or {}
    return build(scenario, Config(games=games, **options), lambda number: InProcess(simulator, number, planned.get(number, ())))
