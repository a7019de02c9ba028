"""Play the episodes of a StarCraft environment in the real game, outside of compiled programs."""

import logging
from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Int, UInt32, UInt64

from refil.envs.sc2 import commands, table
from refil.envs.sc2.games import Games
from refil.envs.sc2.records import Command, Game, GameError, MapInfo, Units
from refil.envs.starcraft import spawn
from refil.envs.starcraft.env import StarCraft
from refil.envs.starcraft.sim.rules import TICKS_PER_STEP
from refil.envs.starcraft.sim.state import State
from refil.hosted import Lost, LostError, report
from refil.types import Outcome

LOG = logging.getLogger(__name__)
ScriptPolicy = Callable[[State, np.ndarray, np.ndarray], State]  # (states, actions, keys) -> states with the allies' orders


class Battles:
    """Plays episodes of a StarCraft environment in the game; see `refil.hosted.Host`.

    Enemies get the order of the authors' environment when a battle starts: attack-move to where the allies are.
    """

    def __init__(self, env: StarCraft, games: Games, script: ScriptPolicy | None = None) -> None:
        self.env, self.games, self.script, self.capacity = env, games, script, games.capacity
        self.tags: dict[int, UInt64[np.ndarray, " units"]] = {}  # tag of the unit in each slot, by the number of the episode

    def reset(
        self,
        tasks: Int[np.ndarray, " episodes"],
        keys: UInt32[np.ndarray, "episodes words"],
        selected: Bool[np.ndarray, " episodes"],
    ) -> State:
        """Spawn the armies of the selected episodes, and return the states in which the enemies have their first order."""
        self._start(min(len(tasks), self.capacity))
        states, x, y = jax.tree.map(np.asarray, self._spawn(self.env.armies[tasks], keys))
        numbers = np.flatnonzero(selected).tolist()
        starts = self.games.map(lambda number: self._reset(number, table.one(states, number), x[number], y[number]), numbers)
        found = [table.one(states, number) for number in range(len(tasks))]
        for number, state in zip(numbers, starts, strict=True):
            found[number] = state
        return table.stack(found)

    def step(
        self,
        states: State,
        actions: Int[np.ndarray, "episodes agents"],
        keys: UInt32[np.ndarray, "episodes words"],
        running: Bool[np.ndarray, " episodes"],
    ) -> tuple[State, Outcome, Lost]:
        """Give the commands of the actions, or of the scripted allies, and simulate eight ticks."""
        ordered = states if self.script is None else jax.tree.map(np.array, self.script(states, actions, keys))
        after = [table.one(ordered, number) for number in range(len(running))]
        numbers, lost = np.flatnonzero(running).tolist(), {}
        orders = {
            number: self._commands(number, table.one(states, number), after[number], actions[number]) for number in numbers
        }
        results = self.games.map(lambda number: self._step(number, orders[number], after[number]), numbers)
        for number, result in zip(numbers, results, strict=True):
            if isinstance(result, GameError):
                lost[number] = result
            else:
                after[number] = result
        stacked = table.stack(after)
        stacked = table.with_fields(stacked, time=np.asarray(states.time) + 1)
        return stacked, jax.tree.map(np.asarray, self._outcome(states, stacked)), lost

    def _commands(self, number: int, before: State, ordered: State, actions: np.ndarray) -> list[Command]:
        game, tags = self.env.game, self.tags[number]
        if self.script is None:
            return commands.from_actions(before, actions, tags, game)
        return commands.from_orders(before, ordered, range(game.num_allies), tags, game)

    def _start(self, count: int) -> None:
        if missing := self.games.missing(count):
            report(f"launching {missing} game{'s' if missing > 1 else ''}")
        try:
            for info in self.games.start(count):
                self._check(info)
        except GameError as error:
            raise LostError(f"a game cannot start: {error}") from error

    def _check(self, info: MapInfo) -> None:
        arena = self.env.game.arena
        size = int(arena.size)
        if info.playable_area != (0, 0, size, size):
            area = "The map's playable area is %s instead of %s; available moves will be wrong."
            LOG.warning(area, info.playable_area, (0, 0, size, size))
        elif blocked := table.blocked(info.pathing, arena):
            grid = "%s cells that are open in the simulator cannot be walked on in the map, the first one at %s"
            LOG.warning(grid, len(blocked), blocked[0])

    def _reset(self, number: int, state: State, x: np.ndarray, y: np.ndarray) -> State:
        placements, ordered = table.placements(state, x, y, self.env.game), state

        def orders(units: Units) -> list[Command]:
            nonlocal ordered
            tags = self.tags[number] = table.assign_slots(state, units, self.env.game)
            idle = table.read(state, units, tags)
            ordered = jax.tree.map(np.array, self._order_enemies(idle))
            enemies = range(self.env.game.num_allies, self.env.game.num_units)
            return commands.joined(commands.from_orders(idle, ordered, enemies, tags, self.env.game))

        try:
            self._game(number).reset(placements, orders)
        except GameError as error:  # the game has been launched several times
            raise LostError(f"a battle cannot start: {error}") from error
        return ordered

    def _game(self, number: int) -> Game:
        """Return the game of an episode; at most `capacity` consecutive episodes are played at once."""
        return self.games[number % self.capacity]

    def _step(self, number: int, orders: list[Command], state: State) -> State | GameError:
        try:
            units = self._game(number).step(orders, TICKS_PER_STEP)
        except GameError as error:
            return error
        return table.read(state, units, self.tags[number])

    @cached_property
    def _spawn(self) -> Callable[..., Any]:
        env = self.env

        def start(army: jax.Array, words: jax.Array) -> tuple[State, jax.Array, jax.Array]:
            key = jax.random.fold_in(jax.random.wrap_key_data(words), 0)  # as `refil.rollout.reset_envs` does
            state = env.reset(army, key)
            idle = spawn.idle_state(army, state.x, state.y, state.tag, env.game)
            return idle, *spawn.spawn_points(army, key, env.game)

        return jax.jit(jax.vmap(start))

    @cached_property
    def _order_enemies(self) -> Callable[[State], State]:
        game = self.env.game
        return jax.jit(lambda state: spawn.attack_move(state, game, game.is_enemy))

    @cached_property
    def _outcome(self) -> Callable[[State, State], Outcome]:
        return jax.jit(jax.vmap(self.env.outcome))


def scripted(env: StarCraft, script: Callable[..., State]) -> ScriptPolicy:
    """Return the orders of a script in many battles; keys are those of steps, as in `ScriptedStarCraft`."""

    def with_orders(state: State, words: jax.Array) -> State:
        script_key, _ = jax.random.split(jax.random.wrap_key_data(words))
        return script(env, state, script_key)

    compiled = jax.jit(jax.vmap(with_orders))
    return lambda states, actions, keys: compiled(states, keys)
