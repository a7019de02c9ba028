"""Placements: battles from exact positions, with the actions of the allies, read from a JSON file."""

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
from refil.envs.starcraft.env import UNITS, StarCraft
from refil.envs.starcraft.scenarios import Army, Scenario
from refil.envs.starcraft.sim.state import ARENAS, State
from refil.envs.starcraft.sim.unit import Unit
from refil.errors import RefilError

TEAMS = ("ally", "enemy")
REQUIRED = ("team", "type", "x", "y")
OPTIONAL = ("health", "shield", "energy", "cooldown")
LIMIT = 150  # steps after which a battle ends
MAX_OVERLAP = 0.02
EXAMPLE = '{"units": [{"team": "ally", "type": "marine", "x": 12.0, "y": 16.0}, ...], "actions": [["target 1"], ...]}'


@dataclass(frozen=True)
class Placement:
    """An environment, its first state, and the action of each ally at each step, or None to follow a script.

    `slots` are the slots of the units in the order of the file; allies have the first ones.
    """

    env: StarCraft
    state: State
    slots: list[int]
    actions: Int[np.ndarray, "steps agents"] | None

    def orders(self, env: StarCraft, state: State, key: PRNGKeyArray) -> State:
        """Give the orders of a step, as a script does; after the last step the actions repeat."""
        assert self.actions is not None
        actions = jnp.asarray(self.actions)[state.time % len(self.actions)]
        return env.with_orders(state, jnp.where(state.alive[: env.game.num_allies], actions, orders.NO_OP))


def read(path: Path, config: Config) -> Placement:
    """Read a placement from a file."""
    if path.exists() and not path.is_file():  # reading a FIFO would wait for ever
        raise RefilError(f"cannot read {path}: it is not a regular file")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RefilError(f"cannot read {path}: {error}") from error
    units, actions = parse(text, str(path))
    return place(units, config, actions)


def parse(text: str, name: str) -> tuple[list[Any], Any]:
    """Return the units and the actions in the text of a placement; `name` stands for it in errors."""
    try:
        content = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise RefilError(f"cannot read {name}: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("units"), list) or not content["units"]:
        raise RefilError(f"{name} has no list of units; a placement looks like {EXAMPLE}")
    if unknown := sorted(content.keys() - {"units", "actions"}):
        raise RefilError(f"{name} has unknown entries: {', '.join(unknown)}; a placement has units and actions")
    return content["units"], content.get("actions")


def place(units: list[dict[str, Any]], config: Config, actions: Any = None) -> Placement:
    """Return the placement of these units."""
    parsed = parse_units(units)
    order = sorted(range(len(units)), key=lambda number: units[number]["team"] == "enemy")  # allies first
    armies: list[Army] = [{}, {}]
    for (_, unit_type), unit in zip(parsed, units, strict=True):
        army = armies[TEAMS.index(unit["team"])]
        army[unit_type.letter] = army.get(unit_type.letter, 0) + 1
    built = env.build(Scenario(lambda: [(armies[0], armies[1])], LIMIT), config)
    num_allies = sum(armies[0].values())
    tags = np.array([*range(len(units) - num_allies, len(units)), *range(len(units) - num_allies)])
    state = _first_state([parsed[number][0] for number in order], [units[number]["type"] for number in order], tags, built)
    state = spawn.attack_move(state, built.game, built.game.is_enemy)
    slots = [order.index(number) for number in range(len(units))]
    return Placement(built, state, slots, None if actions is None else _parse_actions(actions, num_allies, tags[slots]))


def _first_state(numbers: list[dict[str, float]], types: list[str], tags: np.ndarray, built: StarCraft) -> State:
    unit_type = jnp.array([built.game.table.names.index(name) for name in types], jnp.int8)
    x, y = (jnp.array([unit[axis] for unit in numbers]) for axis in ("x", "y"))
    state = spawn.idle_state(unit_type, x, y, jnp.asarray(tags), built.game)

    def fill(name: str) -> Array:
        defaults = getattr(state, name).tolist()
        return jnp.array([unit.get(name, default) for unit, default in zip(numbers, defaults, strict=True)])

    return replace(state, **{name: fill(name) for name in OPTIONAL})


def parse_units(units: list[Any]) -> list[tuple[dict[str, float], Unit]]:
    """Return the numbers and the type of every unit; raise if one is impossible or if two overlap."""
    parsed = [_parse_unit(number, unit) for number, unit in enumerate(units)]
    _check_overlaps(parsed)
    return parsed


def _parse_unit(number: int, unit: Any) -> tuple[dict[str, float], Unit]:
    if not isinstance(unit, dict) or not set(REQUIRED) <= unit.keys():
        raise RefilError(f"unit {number} needs team, type, x and y; it is {unit}")
    if unknown := sorted(unit.keys() - {*REQUIRED, *OPTIONAL}):
        raise RefilError(f"unit {number} has unknown entries: {', '.join(unknown)}; optional entries: {', '.join(OPTIONAL)}")
    if unit["team"] not in TEAMS:
        raise RefilError(f"unit {number} has unknown team {unit['team']!r}; available: {', '.join(TEAMS)}")
    if unit["type"] not in (types := plugins.names(UNITS)):  # checked here, because `plugins.load` would run a file path
        raise RefilError(f"unit {number} has unknown type {unit['type']!r}; available: {', '.join(types)}")
    numbers = {name: unit[name] for name in ("x", "y", *OPTIONAL) if name in unit}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise RefilError(f"unit {number} has {name} {value!r}, which is not a number")
    unit_type = plugins.load(UNITS, unit["type"]).UNIT
    _check_numbers(number, numbers, unit["type"], unit_type)
    return {name: float(value) for name, value in numbers.items()}, unit_type


def _check_numbers(number: int, numbers: dict[str, int | float], name: str, unit_type: Unit) -> None:
    radius = unit_type.collision_radius
    if not spawn.is_on_map(float(numbers["x"]), float(numbers["y"]), radius, ARENAS["any_angle"]):
        raise RefilError(f"unit {number} at {numbers['x']}, {numbers['y']} is not on the map (0 to 32, radius {radius})")
    limits = (unit_type.max_health, unit_type.max_shield, unit_type.max_energy, unit_type.attack_period + 2)
    for stat, limit in zip(OPTIONAL, limits, strict=True):
        value = numbers.get(stat, 0.0)
        if value < 0 or value > limit or (stat == "health" and stat in numbers and value == 0):
            raise RefilError(f"unit {number} has {stat} {value}; a {name} has up to {limit}")


def _check_overlaps(parsed: list[tuple[dict[str, float], Unit]]) -> None:
    x, y = (np.array([numbers[axis] for numbers, _ in parsed], np.float32) for axis in ("x", "y"))
    radius = np.array([unit.collision_radius for _, unit in parsed], np.float32)
    layers = np.array([unit.collision_layers for _, unit in parsed], int)
    contact = np.triu(np.where(layers[:, None] & layers, radius[:, None] + radius, 0.0), 1)
    distance = np.hypot(x[:, None] - x, y[:, None] - y)
    for one, other in np.argwhere(contact - distance > MAX_OVERLAP):
        raise RefilError(
            f"units {one} and {other} overlap: their distance is {distance[one, other]:.3f}"
            f" and must be at least {contact[one, other]:.3f}"
        )


def _parse_actions(actions: Any, num_allies: int, tags: np.ndarray) -> Int[np.ndarray, "steps agents"]:
    # `tags` are in the order of the file.
    if not isinstance(actions, list) or not actions:
        raise RefilError(f"actions is {actions!r}; it must be a list with one list per step")
    rows = []
    for step, row in enumerate(actions):
        if not isinstance(row, list) or len(row) != num_allies:
            raise RefilError(f"step {step} of actions is {row!r}; it needs one action for each of the {num_allies} allies")
        rows.append([_parse_action(action, tags) for action in row])
    return np.array(rows, np.int32)


def _parse_action(action: Any, tags: np.ndarray) -> int:
    moves: dict[str, int] = {"stop": orders.STOP} | {name: orders.NORTH + number for number, name in enumerate(orders.MOVES)}
    if isinstance(action, str) and action in moves:
        return moves[action]
    match str(action).split():
        case ["target", number] if number.isdecimal() and int(number) < len(tags):
            return orders.FIRST_TARGET + int(tags[int(number)])
    raise RefilError(f"unknown action {action!r}; available: {', '.join(moves)} and target 0 to {len(tags) - 1}")
