"""Fields: a fixed number of slots for any units, so that edited armies run in the same compiled programs."""

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from refil import plugins, rollout
from refil.envs.starcraft import env, reward, spawn
from refil.envs.starcraft.analysis import placement
from refil.envs.starcraft.config import Config
from refil.envs.starcraft.env import UNITS, StarCraft
from refil.envs.starcraft.scenarios import Army, Scenario
from refil.envs.starcraft.sim import tick
from refil.envs.starcraft.sim.rules import SMAC, TICKS_PER_STEP
from refil.envs.starcraft.sim.state import ARENAS, NOBODY, Game, State
from refil.envs.starcraft.sim.unit import Unit, UnitTable
from refil.errors import RefilError
from refil.lab import mirror
from refil.training import devices

SIZES = (12, 32, 64)  # slots of each side; the smallest number that suffices is used
LIMIT = placement.LIMIT
SIDE_NOUNS = {"ally": "allies", "enemy": "enemies"}
SIDES = tuple(SIDE_NOUNS)


class Units(NamedTuple):
    """The units of a situation, as a placement file has them: for each its team, its type and its numbers."""

    teams: tuple[str, ...]
    types: tuple[Unit, ...]
    names: tuple[str, ...]
    numbers: tuple[dict[str, float], ...]

    def army(self, team: str) -> tuple[str, ...]:
        """Return the names of the types of one team's units."""
        return tuple(name for name, of in zip(self.names, self.teams, strict=True) if of == team)


class StepResult(NamedTuple):
    """A step: the state after every tick, the reward before scaling, and the result with and without healers in the game."""

    ticks: State
    reward: Float[Array, ""]
    with_healers: Int[Array, ""]
    without_healers: Int[Array, ""]


def parse(units: list[Any]) -> Units:
    """Check the units of a placement and return them; both sides need at least one."""
    found = placement.parse_units(units)
    numbers, types = tuple(each for each, _ in found), tuple(each for _, each in found)
    parsed = Units(tuple(unit["team"] for unit in units), types, tuple(unit["type"] for unit in units), numbers)
    for team, noun in SIDE_NOUNS.items():
        if not parsed.army(team):
            raise RefilError(f"there are no {noun}; place at least one unit on each side")
        if len(parsed.army(team)) > SIZES[-1]:
            raise RefilError(f"{len(parsed.army(team))} {noun} are too many; the lab has room for {SIZES[-1]} on each side")
    return parsed


def size_for(count: int) -> int:
    """Return the number of slots per side that a number of units or tags needs."""
    return next(size for size in SIZES if size >= count)


@cache
def unit_table() -> UnitTable:
    """Return the table of all unit types."""
    letters = [plugins.load(UNITS, name).UNIT.letter for name in plugins.names(UNITS)]
    return env.unit_table([(dict.fromkeys(letters, 1), {})], "smac")


@cache
def empty_field(size: int) -> StarCraft:
    """Return the environment of battles with this many slots per side, of any unit types."""
    game = Game(size, 2 * size, unit_table(), ARENAS["any_angle"], SMAC)
    return StarCraft(game, Config(), LIMIT, 1.0, np.full((1, 2 * size), -1, np.int8), ("lab",))


def reward_divisor(units: Units) -> float:
    """Return the divisor of rewards, as `refil battle` has it for these armies."""
    armies: list[Army] = [{}, {}]
    for team, unit in zip(units.teams, units.types, strict=True):
        army = armies[placement.TEAMS.index(team)]
        army[unit.letter] = army.get(unit.letter, 0) + 1
    return env.build(Scenario(lambda: [(armies[0], armies[1])], LIMIT), Config()).reward_divisor


def slots_of(units: Units, size: int) -> list[int]:
    """Return the slot of every unit: allies have the first half of the slots, in the order of the file, enemies the rest."""
    next_slot = {"ally": 0, "enemy": size}
    found = []
    for team in units.teams:
        found.append(next_slot[team])
        next_slot[team] += 1
    return found


def first_state(units: Units, size: int) -> State:
    """Return the state before the first step, in which no unit has an order."""
    slots, names, shape = np.array(slots_of(units, size)), unit_table().names, 2 * size

    def fill(values: Any, empty: Any) -> Array:
        column = np.array(np.broadcast_to(empty, shape))
        column[slots] = values
        return jnp.asarray(column)

    tags = fill((slots + size) % shape, NOBODY)  # enemies have the first tags
    types = fill([names.index(name) for name in units.names], NOBODY)
    x, y = (fill([numbers[axis] for numbers in units.numbers], np.float32(0)) for axis in ("x", "y"))
    state = spawn.idle_state(types, x, y, tags, empty_field(size).game)

    def given(name: str) -> Array:
        usual = np.asarray(getattr(state, name))
        return fill([numbers.get(name, usual[slot]) for numbers, slot in zip(units.numbers, slots, strict=True)], usual)

    return replace(state, **{name: given(name) for name in placement.OPTIONAL})


def jitter_numbers(units: Units, size: int) -> Int[np.ndarray, " slots"]:
    """Return which random number each slot uses: that of its unit in a battle without empty slots."""
    numbers = np.zeros(2 * size, np.int32)
    allies = len(units.army("ally"))
    numbers[:size] = np.arange(size)
    numbers[size:] = np.minimum(allies + np.arange(size), 2 * size - 1)
    return numbers


@cache
def advance(size: int) -> Any:
    """Compile the function that simulates a step of both sides' orders: allies' of the first state, enemies' of the second."""
    field = empty_field(size)

    def run(allies: State, enemies: State, numbers: Int[Array, " slots"], key: Key[Array, ""]) -> tuple[State, StepResult]:
        before = mirror.combine(allies, enemies)
        _, step_key = rollout.step_keys(key, before.time)
        _, sim_key = jax.random.split(step_key)  # as `scripted.ScriptedStarCraft.step`
        stats, jitter = field.game.stats(before), field.cooldown_jitter(sim_key)[numbers]

        def one_tick(now: State, _: None) -> tuple[State, State]:
            after = tick.tick(now, stats, jitter, field.game)
            return after, replace(after, time=after.time + 1)

        after, ticks = jax.lax.scan(one_tick, before, None, length=TICKS_PER_STEP)
        after = replace(after, time=before.time + 1)
        results = (reward.battle_result(after, field.game, healers) for healers in (True, False))
        return after, StepResult(ticks, reward.damage_reward(before, after, field.game, True), *results)

    return devices.jit_quickly(run)


@cache
def mirrored(size: int) -> Any:
    """Compile the function that swaps the sides."""
    return devices.jit_quickly(mirror.mirror)
