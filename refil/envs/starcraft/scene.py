"""A battle drawn: units by type and side, their strength, whom they shoot at, and what bursts or burns."""

import math

import numpy as np

from refil.envs.starcraft.sim.state import Game, World
from refil.envs.starcraft.sim.unit import Unit, aimed
from refil.scene import Circle, Line, Scene

ALLY, ENEMY = "#3b82f6", "#ef4444"
HEALTH, SHIELD, ENERGY = "#22c55e", "#38bdf8", "#c084fc"
SHOT, FIRE, MENDING = "#fde047", "#fb923c", "#86efac"
FLASH = 3  # loops that a shot is seen


def scene(world: World, game: Game) -> Scene:
    """One instant of one battle."""
    arrays = {name: np.asarray(getattr(world, name)) for name in ("kind", "x", "y", "health", "shield", "energy", "target")}
    circles, lines = [], []
    for slot in np.flatnonzero(arrays["health"] > 0).tolist():
        unit = game.table.units[arrays["kind"][slot]]
        circles.append(circle(slot, unit, arrays, game))
        lines += strokes(slot, unit, arrays, float(world.cooldown[slot]), game)
    arena = game.arena
    for y in {arena.south, arena.north} - {0.0, arena.size}:
        lines.append(Line(0.0, y, arena.size, y, "#475569"))
    return Scene(arena.size, arena.size, circles, lines, f"step {int(world.time)}")


def circle(slot: int, unit: Unit, arrays: dict[str, np.ndarray], game: Game) -> Circle:
    """A living unit."""
    x, y, target = arrays["x"][slot], arrays["y"][slot], arrays["target"][slot]
    bars = [(arrays["health"][slot] / unit.health, HEALTH)]
    if unit.shield:
        bars.append((arrays["shield"][slot] / unit.shield, SHIELD))
    if unit.energy_most:
        bars.append((arrays["energy"][slot] / unit.energy_most, ENERGY))
    facing = None if target < 0 else math.atan2(arrays["y"][target] - y, arrays["x"][target] - x)
    side = "ally" if slot < game.allies else "enemy"
    return Circle(
        name=f"{side} {slot}",
        x=float(x),
        y=float(y),
        radius=unit.radius,
        colour=ALLY if side == "ally" else ENEMY,
        label=unit.letter,
        facing=facing,
        bars=tuple((float(share), colour) for share, colour in bars),
    )


def strokes(slot: int, unit: Unit, arrays: dict[str, np.ndarray], cooldown: float, game: Game) -> list[Line]:
    """A shot just fired, with the line that a Colossus burns; a healer's ray while its target is hurt."""
    target = arrays["target"][slot]
    if target < 0:
        return []
    x, y, to_x, to_y = (float(arrays[axis][who]) for who in (slot, target) for axis in ("x", "y"))
    other = game.table.units[arrays["kind"][target]]
    if unit.heal:
        near = math.hypot(to_x - x, to_y - y) <= unit.range + unit.radius + other.radius
        hurt = arrays["health"][target] < other.health
        return [Line(x, y, to_x, to_y, MENDING, 0.15)] if near and hurt else []
    if cooldown <= unit.period - 1 - FLASH:
        return []
    lines = [Line(x, y, to_x, to_y, SHOT)]
    if unit.effect is not aimed and not unit.dies_attacking:
        away = math.hypot(to_x - x, to_y - y) or 1.0
        across_x, across_y = -(to_y - y) / away * 1.25, (to_x - x) / away * 1.25
        lines.append(Line(to_x - across_x, to_y - across_y, to_x + across_x, to_y + across_y, FIRE, 0.3))
    return lines
