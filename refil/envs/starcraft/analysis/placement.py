"""Single situations to look at: units in exact places, and what the allies do there, from a JSON file."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from refil import plugins
from refil.envs.starcraft import env, orders, spawn
from refil.envs.starcraft.config import Config
from refil.envs.starcraft.env import UNITS, Battle
from refil.envs.starcraft.scenarios import Army, Scenario
from refil.envs.starcraft.sim import motion
from refil.envs.starcraft.sim.state import ARENAS, World
from refil.envs.starcraft.sim.unit import Unit
from refil.errors import RefilError

TEAMS = ("ally", "enemy")
LIMIT = 150
TOUCHING = 0.02  # bodies may overlap by so much
STRENGTHS = ("health", "shield", "energy", "cooldown")
EXAMPLE = '{"units": [{"team": "ally", "type": "marine", "x": 12.0, "y": 16.0}, ...], "actions": [["target 1"], ...]}'


@dataclass(frozen=True)
class Placement:
    """A battle, its first instant, and what each ally does at each step (None where a script is to say it).

    `slot` is where each unit of the file is: allies come first.
    """

    battle: Battle
    world: World
    slot: list[int]
    actions: Int[np.ndarray, "steps agents"] | None

    def command(self, battle: Battle, world: World, key: PRNGKeyArray) -> World:
        """The orders of a step; when they run out they begin anew."""
        assert self.actions is not None
        row = jnp.asarray(self.actions)[world.time % len(self.actions)]
        return battle.ordered(world, jnp.where(world.alive[: battle.game.allies], row, orders.NOTHING))


def read(path: Path, config: Config) -> Placement:
    """The situation in a file."""
    try:
        content = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RefilError(f"cannot read {path}: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("units"), list) or not content["units"]:
        raise RefilError(f"{path} has no list of units; a placement looks like {EXAMPLE}")
    if unknown := sorted(content.keys() - {"units", "actions"}):
        raise RefilError(f"{path} has {', '.join(unknown)}; a placement has units and actions")
    return place(content["units"], config, content.get("actions"))


def place(units: list[dict[str, Any]], config: Config, actions: Any = None) -> Placement:
    """The situation with these units."""
    checked = [check(number, unit) for number, unit in enumerate(units)]
    slot_order = sorted(range(len(units)), key=lambda number: units[number]["team"] == "enemy")
    armies: list[Army] = [{}, {}]
    for (_, values), unit in zip(checked, units, strict=True):
        army = armies[TEAMS.index(unit["team"])]
        army[values.letter] = army.get(values.letter, 0) + 1
    made = env.build(Scenario(lambda: [(armies[0], armies[1])], LIMIT), config)
    types = [units[number]["type"] for number in slot_order]
    kind = jnp.array([made.game.table.names.index(name) for name in types], jnp.int8)
    allies = sum(armies[0].values())
    tag = np.array([*range(len(units) - allies, len(units)), *range(len(units) - allies)])
    values = {name: [checked[number][0].get(name) for number in slot_order] for name in ("x", "y", *STRENGTHS)}
    world = spawn.still(kind, jnp.array(values["x"]), jnp.array(values["y"]), jnp.asarray(tag), made.game)
    given = {name: filled(values[name], getattr(world, name)) for name in STRENGTHS}
    world = replace(world, **given)
    refuse_overlaps(world, made, slot_order)
    world = spawn.attack(world, made.game, jnp.arange(len(units)) >= allies)
    slot = [slot_order.index(number) for number in range(len(units))]
    return Placement(made, world, slot, None if actions is None else read_actions(actions, allies, slot, tag))


def filled(values: list[float | None], fresh: Array) -> Array:
    """The given values, and those of a fresh unit where none is given."""
    return jnp.array([own if value is None else value for value, own in zip(values, fresh.tolist(), strict=True)])


def check(number: int, unit: Any) -> tuple[dict[str, float], Unit]:
    """A unit's numbers and its type, if they can be."""
    if not isinstance(unit, dict) or not {"team", "type", "x", "y"} <= unit.keys():
        raise RefilError(f"unit {number} needs team, type, x and y; it is {unit}")
    if unknown := sorted(unit.keys() - {"team", "type", "x", "y", *STRENGTHS}):
        raise RefilError(f"unit {number} has {', '.join(unknown)}; it may have {', '.join(STRENGTHS)}")
    if unit["team"] not in TEAMS:
        raise RefilError(f"unit {number} has the team {unit['team']!r}; there are {', '.join(TEAMS)}")
    if unit["type"] not in (types := plugins.names(UNITS)):  # a path to a file, which load would run, is no type either
        raise RefilError(f"unit {number} has the type {unit['type']!r}; there are {', '.join(types)}")
    numbers = {name: unit[name] for name in ("x", "y", *STRENGTHS) if name in unit}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise RefilError(f"unit {number} has {name} {value!r}; it is a number")
    kind = plugins.load(UNITS, unit["type"]).UNIT
    if not spawn.on_the_map(numbers["x"], numbers["y"], kind.body, ARENAS["any_angle"]):
        raise RefilError(f"unit {number} at {numbers['x']}, {numbers['y']} is not on the map (0 to 32, body {kind.body})")
    most = {"health": kind.health, "shield": kind.shield, "energy": kind.energy_most, "cooldown": kind.period + 2}
    for name in STRENGTHS:
        value = numbers.get(name, 0.0)
        if value < 0 or value > most[name] or (name == "health" and name in numbers and value == 0):
            raise RefilError(f"unit {number} has {name} {value}; a {unit['type']} has up to {most[name]}")
    return {name: float(value) for name, value in numbers.items()}, kind


def refuse_overlaps(world: World, made: Battle, slot_order: list[int]) -> None:
    """Bodies of a layer may touch, no more."""
    contact = np.asarray(motion.contacts(world, made.game.table[world.kind]))
    x, y = np.asarray(world.x), np.asarray(world.y)
    distance = np.hypot(x[:, None] - x, y[:, None] - y)
    for one, other in np.argwhere(contact - distance > TOUCHING):
        first, second = slot_order[one], slot_order[other]
        raise RefilError(
            f"units {first} and {second} overlap: they are {distance[one, other]:.3f} apart"
            f" and their bodies need {contact[one, other]:.3f}"
        )


def read_actions(actions: Any, allies: int, slot: list[int], tag: np.ndarray) -> Int[np.ndarray, "steps agents"]:
    """Actions by their numbers, from lists of words."""
    if not isinstance(actions, list) or not actions:
        raise RefilError("actions is a list with one list per step")
    rows = []
    for step, words in enumerate(actions):
        if not isinstance(words, list) or len(words) != allies:
            raise RefilError(f"step {step} of actions is {words!r}; it has one entry for each of the {allies} allies")
        rows.append([read_action(word, slot, tag) for word in words])
    return np.array(rows, np.int32)


def read_action(word: Any, slot: list[int], tag: np.ndarray) -> int:
    """An action's number."""
    plain: dict[str, int] = {"stop": orders.STOP} | {name: orders.NORTH + number for number, name in enumerate(orders.MOVES)}
    if isinstance(word, str) and word in plain:
        return plain[word]
    match str(word).split():
        case ["target", number] if number.isdecimal() and int(number) < len(slot):
            return orders.FIRST_TARGET + int(tag[slot[int(number)]])
    raise RefilError(f"{word!r} is no action; there are {', '.join(plain)} and target 0 to {len(slot) - 1}")
