"""Drawings of battles: units by type and team with bars for health, shield and energy, and the attacks being made."""

import math
from typing import NamedTuple

import numpy as np

from refil.envs.starcraft import orders
from refil.envs.starcraft.sim.rules import SIGHT_RANGE
from refil.envs.starcraft.sim.state import Game, State
from refil.envs.starcraft.sim.unit import VARIED, Unit, scale, single_target
from refil.scene import Circle, LegendEntry, Level, Line, Scene

ALLY, ENEMY, EDGE = "#3b82f6", "#ef4444", "#475569"
HEALTH, SHIELD, ENERGY = "#22c55e", "#38bdf8", "#c084fc"
ATTACK, SPLASH, HEALING = "#fde047", "#fb923c", "#86efac"
PLAIN = "#cbd5e1"  # color of shapes in the legend
COMPASS = ("east", "north-east", "north", "north-west", "west", "south-west", "south", "south-east")
FLASH = 3  # ticks for which an attack stays visible
FIELDS = ("unit_type", "tag", "x", "y", "health", "shield", "energy", "target", "cooldown")
ORDER_FIELDS = ("attack_moving", "moving", "goal_x", "goal_y")


class _Present(NamedTuple):
    unit: Unit  # its type's numbers times its multipliers
    multipliers: dict[str, float]
    target_range: float


def scene(state: State, game: Game) -> Scene:
    """Return a drawing of one timestep."""
    arrays = {name: np.asarray(getattr(state, name)) for name in (*FIELDS, *ORDER_FIELDS)}
    circles, lines, units = [], [], _units(state, game)
    for slot in np.flatnonzero(arrays["health"] > 0).tolist():
        circles.append(_circle(slot, units[slot], arrays, game))
        lines += _lines(slot, units, arrays)
    arena = game.arena
    for y in {arena.south, arena.north} - {0.0, arena.size}:
        lines.append(Line(0.0, y, arena.size, y, EDGE))
    note, legend, levels = f"step {int(state.time)}", _legend(arrays["unit_type"], game), _levels(arrays, units, game)
    return Scene(arena.size, arena.size, circles, lines, note, legend=legend, levels=levels)


def _units(state: State, game: Game) -> dict[int, _Present]:
    unit_type, multipliers = np.asarray(state.unit_type), {name: np.asarray(m) for name, m in state.multipliers.items()}
    reach = np.broadcast_to(np.asarray(orders.target_range(state)), (game.num_units, 1))
    units = {}
    for slot in np.flatnonzero(unit_type >= 0).tolist():
        own = {name: float(multipliers[name][slot]) for name in VARIED if name in multipliers}
        units[slot] = _Present(scale(game.table.units[unit_type[slot]], own), own, float(reach[slot, 0]))
    return units


def _circle(slot: int, present: _Present, arrays: dict[str, np.ndarray], game: Game) -> Circle:
    unit = present.unit
    now = {name: float(arrays[name][slot]) for name in FIELDS}
    x, y, target = now["x"], now["y"], arrays["target"][slot]
    stats = [("health", unit.max_health, HEALTH), ("shield", unit.max_shield, SHIELD), ("energy", unit.max_energy, ENERGY)]
    stats = [(name, limit, color) for name, limit, color in stats if limit]
    values: list[tuple[str, int | float | str]] = [(name, f"{now[name]:.0f} of {limit:.0f}") for name, limit, _ in stats]
    if unit.attack_period:
        values.append(("cooldown", f"{now['cooldown']:.0f} of {unit.attack_period:.0f} ticks"))
    values += [(f"{name} multiplier", f"{multiplier:.2f}") for name, multiplier in present.multipliers.items()]
    facing = None if target < 0 else math.atan2(arrays["y"][target] - y, arrays["x"][target] - x)
    team, verb = _team(slot, game), "heal" if unit.heal_rate else "attack"
    return Circle(
        name=f"{team} {slot}",
        x=x,
        y=y,
        radius=unit.radius,
        color=ALLY if team == "ally" else ENEMY,
        label=unit.letter,
        facing=facing,
        bars=tuple((now[name] / limit, color) for name, limit, color in stats),
        shape=unit.shape,
        entity=slot,
        kind=f"{_type_name(int(now['unit_type']), game)}, {team}, tag {now['tag']:.0f}",
        values=tuple(values),
        ranges=_ranges(unit, present.target_range),
        verb=verb,
        order=_order(slot, verb, arrays, game),
    )


def _team(slot: int, game: Game) -> str:
    return "ally" if slot < game.num_allies else "enemy"


def _order(slot: int, verb: str, arrays: dict[str, np.ndarray], game: Game) -> str:
    """Return what a unit does now: its target, or where it walks."""
    target = int(arrays["target"][slot])
    if target >= 0:
        return f"{verb} {_team(target, game)} {target}"
    if not arrays["moving"][slot]:
        return "stand"
    offset = [float(arrays[f"goal_{axis}"][slot] - arrays[axis][slot]) for axis in ("x", "y")]
    direction = COMPASS[round(math.atan2(offset[1], offset[0]) / (math.pi / 4)) % 8]
    return f"{'attack-move' if arrays['attack_moving'][slot] else 'move'} {direction}"


def _ranges(unit: Unit, target_range: float) -> tuple[tuple[str, float], ...]:
    """Return what is drawn around a selected unit; weapons reach from edge to edge, here to a target of the same size."""
    weapon = ("healing range" if unit.heal_rate else "weapon range", unit.range + 2 * unit.radius)
    armed = unit.attack_period or unit.heal_rate
    return (*((weapon,) if armed else ()), ("range of target actions", target_range), ("sight", SIGHT_RANGE))


def _legend(unit_types: np.ndarray, game: Game) -> tuple[LegendEntry, ...]:
    types = sorted(set(unit_types[unit_types >= 0].tolist()))
    units = [(game.table.units[number], _type_name(number, game)) for number in types]
    bars = [("health", "max_health", HEALTH), ("shield", "max_shield", SHIELD), ("energy", "max_energy", ENERGY)]
    marks = [LegendEntry(name, color, None) for name, stat, color in bars if any(getattr(unit, stat) for unit, _ in units)]
    marks.append(LegendEntry("attack", ATTACK, None))
    if any(unit.effect is not single_target and not unit.dies_attacking for unit, _ in units):
        marks.append(LegendEntry("splash damage", SPLASH, None))
    if any(unit.heal_rate for unit, _ in units):
        marks.append(LegendEntry("healing", HEALING, None))
    shapes = [LegendEntry(f"{name} ({unit.letter})", PLAIN, unit.shape) for unit, name in units]
    return (LegendEntry("allies, the team", ALLY), LegendEntry("enemies", ENEMY), *shapes, *marks)


def _levels(arrays: dict[str, np.ndarray], units: dict[int, _Present], game: Game) -> tuple[Level, ...]:
    """Return the health and shield that each side has left, as a fraction of what its units can have."""
    slots = range(game.num_units)
    ally = np.arange(game.num_units) < game.num_allies
    most = np.array([units[slot].unit.max_health + units[slot].unit.max_shield if slot in units else 0.0 for slot in slots])
    left = arrays["health"] + arrays["shield"]
    sides = (("allies' health", ally, ALLY), ("enemies' health", ~ally, ENEMY))
    return tuple(Level(name, float(left[side].sum() / max(most[side].sum(), 1.0)), color) for name, side, color in sides)


def _type_name(number: int, game: Game) -> str:
    return game.table.names[number].replace("_", " ").title()


def _lines(slot: int, units: dict[int, _Present], arrays: dict[str, np.ndarray]) -> list[Line]:
    unit, target = units[slot].unit, arrays["target"][slot].item()
    if target < 0:
        return []
    x, y, to_x, to_y = (float(arrays[axis][other]) for other in (slot, target) for axis in ("x", "y"))
    other = units[target].unit
    if unit.heal_rate:
        near = math.hypot(to_x - x, to_y - y) <= unit.range + unit.radius + other.radius
        damaged = arrays["health"][target] < other.max_health
        return [Line(x, y, to_x, to_y, HEALING, 0.15)] if near and damaged else []
    if float(arrays["cooldown"][slot]) <= unit.attack_period - 1 - FLASH:
        return []
    lines = [Line(x, y, to_x, to_y, ATTACK)]
    if unit.effect is not single_target and not unit.dies_attacking:
        distance = math.hypot(to_x - x, to_y - y) or 1.0
        across_x, across_y = -(to_y - y) / distance * 1.25, (to_x - x) / distance * 1.25
        lines.append(Line(to_x - across_x, to_y - across_y, to_x + across_x, to_y + across_y, SPLASH, 0.3))
    return lines
