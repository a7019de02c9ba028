"""Drawings of battles: units by type and team with bars for health, shield and energy, and the attacks being made."""

import math

import numpy as np

from refil.envs.starcraft.sim.state import Game, State
from refil.envs.starcraft.sim.unit import Unit, single_target
from refil.scene import Circle, Line, Scene

ALLY, ENEMY, EDGE = "#3b82f6", "#ef4444", "#475569"
HEALTH, SHIELD, ENERGY = "#22c55e", "#38bdf8", "#c084fc"
ATTACK, SPLASH, HEALING = "#fde047", "#fb923c", "#86efac"
FLASH = 3  # ticks for which an attack stays visible


def scene(state: State, game: Game) -> Scene:
    """Return a drawing of one timestep."""
    names = ("unit_type", "x", "y", "health", "shield", "energy", "target", "cooldown")
    arrays = {name: np.asarray(getattr(state, name)) for name in names}
    circles, lines = [], []
    for slot in np.flatnonzero(arrays["health"] > 0).tolist():
        unit = game.table.units[arrays["unit_type"][slot]]
        circles.append(_circle(slot, unit, arrays, game))
        lines += _lines(slot, unit, arrays, game)
    arena = game.arena
    for y in {arena.south, arena.north} - {0.0, arena.size}:
        lines.append(Line(0.0, y, arena.size, y, EDGE))
    return Scene(arena.size, arena.size, circles, lines, f"step {int(state.time)}")


def _circle(slot: int, unit: Unit, arrays: dict[str, np.ndarray], game: Game) -> Circle:
    x, y, target = arrays["x"][slot], arrays["y"][slot], arrays["target"][slot]
    bars = [(arrays["health"][slot] / unit.max_health, HEALTH)]
    if unit.max_shield:
        bars.append((arrays["shield"][slot] / unit.max_shield, SHIELD))
    if unit.max_energy:
        bars.append((arrays["energy"][slot] / unit.max_energy, ENERGY))
    facing = None if target < 0 else math.atan2(arrays["y"][target] - y, arrays["x"][target] - x)
    team = "ally" if slot < game.num_allies else "enemy"
    return Circle(
        name=f"{team} {slot}",
        x=float(x),
        y=float(y),
        radius=unit.radius,
        color=ALLY if team == "ally" else ENEMY,
        label=unit.letter,
        facing=facing,
        bars=tuple((float(fraction), color) for fraction, color in bars),
    )


def _lines(slot: int, unit: Unit, arrays: dict[str, np.ndarray], game: Game) -> list[Line]:
    target = arrays["target"][slot]
    if target < 0:
        return []
    x, y, to_x, to_y = (float(arrays[axis][other]) for other in (slot, target) for axis in ("x", "y"))
    other = game.table.units[arrays["unit_type"][target]]
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
