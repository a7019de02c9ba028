"""Movement without overlap.

Each unit first chooses the heading on which it gets furthest, then walks only until it would touch another body: each of two
walking units may use half of the gap between them. Two steps shorten a distance by at most the sum of their components along
it, so bodies that do not overlap never will. Units that had to wait for others then walk the rest of their step.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from refil.envs.starcraft.sim.neighbors import Others, everyone, nearest, reach
from refil.envs.starcraft.sim.state import (
    Arena,
    Game,
    State,
    add_batch_axes,
    apply_rows,
    argmin,
    at_target,
    compute_once,
    norm,
    update_if,
)
from refil.envs.starcraft.sim.unit import UnitStats

# Degrees off a unit's course, smallest first, and the weight of the distance gained on each heading.
HEADINGS = {0: 1.0, 25: 0.9, -25: 0.9, 50: 0.75, -50: 0.75, 80: 0.5, -80: 0.5, 110: 0.25, -110: 0.25}
OTHER_SIDE = 0.4  # factor of that weight on the other side of the course than the one the unit has turned to
MAX_PUSH = 0.1  # distance by which overlapping units are pushed apart in a tick, at most
PUSH_SIDEWAYS = 0.05  # part of that push that goes in a direction specific to each unit
GOLDEN_ANGLE = math.pi * (3 - 5**0.5)  # multiples of this angle never repeat a direction
PUSH_GAP = 0.05  # units push an idle ally in their way that is nearer than this

Scalar = Shaped[Array, ""] | float | int
Vector = tuple[Float[Array, " units *batch"], Float[Array, " units *batch"]]  # x and y of a position or of a step


class Pairs(NamedTuple):
    """[other, unit]: the direction from the unit to the other one, and the gap between their bodies."""

    others: Others
    toward_x: Float[Array, "others units *batch"]
    toward_y: Float[Array, "others units *batch"]
    gap: Float[Array, "others units *batch"]


def contact_distances(state: State, stats: UnitStats, others: Others | None = None) -> Float[Array, "others units *batch"]:
    """Return the distance of two units that touch, and a large negative number for units that can overlap."""
    others = others or everyone(state.x)
    touch = others.slots != add_batch_axes(jnp.arange(len(state.x)), state.x)[None]
    if others.rows is None:  # those that are near are alive and collide
        touch &= (stats.collision_layers[:, None] & stats.collision_layers[None]) != 0
        touch &= state.alive[:, None] & state.alive[None]
    radius = stats.collision_radius
    return jnp.where(touch, others.of(radius) + radius[None], -100.0)


def pairs(
    x: Float[Array, " units *batch"], y: Float[Array, " units *batch"], contact: Array, others: Others | None = None
) -> Pairs:
    """Return directions and gaps of pairs of units; if two units coincide, the later one counts as east."""
    others = others or everyone(x)
    slots = add_batch_axes(jnp.arange(len(x)), x)
    x, y = others.of(x) - x[None], others.of(y) - y[None]
    distance = norm(x, y)
    east = jnp.where(others.slots > slots[None], 1.0, -1.0)
    inverse = 1.0 / jnp.maximum(distance, 1e-6)
    return Pairs(others, jnp.where(distance > 1e-6, x * inverse, east), y * inverse, distance - contact)


def walk(state: State, stats: UnitStats, step: Vector, game: Game) -> State:
    """Move all units by the steps that they intend, as far as others and the map's edge allow.

    Kernels for large armies look at the units that are near, and at all units if there are too many of these.
    """
    if not game.near_only:
        return _walk(state, stats, step, everyone(state.x), game)[0]
    others, fits, longest = _near(state, stats, step, game)
    after, length = _walk(state, stats, step, others, game)
    fits &= (length > longest[None]).sum() == 0  # as assumed of idle units that are pushed
    return near_or_all(fits, after, lambda: _walk(state, stats, step, everyone(state.x), game)[0])


def near_or_all(fits: Bool[Array, ""], after: State, look_at_all: Callable[[], State]) -> State:
    """Return the state after looking at units that are near if that suffices, else after looking at all."""

    def moved(state: State) -> tuple[Array, ...]:
        return state.x, state.y, state.turn_side

    x, y, turn_side = update_if(~fits, moved(after), lambda: moved(look_at_all()))
    return replace(after, x=x, y=y, turn_side=turn_side)


def _near(state: State, stats: UnitStats, step: Vector, game: Game) -> tuple[Others, Bool[Array, ""], Float[Array, "*batch"]]:
    """Return the units that are near, whether these are all of them, and the longest step."""
    length = norm(*step)
    gap = pairs(state.x, state.y, contact_distances(state, stats)).gap
    idle = _idle(state, stats) & (length == 0)
    distance, longest = reach(length, idle if game.rules.idle_push > 0 else jnp.zeros_like(idle), PUSH_GAP)
    return *nearest(gap < distance[None]), longest


def _idle(state: State, stats: UnitStats) -> Bool[Array, " units *batch"]:
    return state.alive & (stats.speed > 0) & (state.target < 0)


def _walk(
    state: State, stats: UnitStats, step: Vector, others: Others, game: Game
) -> tuple[State, Float[Array, " units *batch"]]:
    """Move all units, looking at these other ones; return also the lengths of the steps that they tried."""
    contact = contact_distances(state, stats, others)
    now = pairs(state.x, state.y, contact, others)
    if game.rules.idle_push > 0:
        step = push_idle(now, step, _idle(state, stats), game)
    length = norm(*step)
    *steered, turn_side = steer(now, step, state.turn_side, game)
    step = stay_on_map(state, slide(state, now, steered, game), stats, game.arena)
    fraction = free_fraction(now, step, game)
    x, y = state.x + fraction * step[0], state.y + fraction * step[1]
    now = pairs(x, y, contact, others)
    rest = (1 - fraction) * step[0], (1 - fraction) * step[1]
    fraction = free_fraction(now, rest, game)
    push = separation(now, stats.speed > 0)
    x, y = clip_to_map(x + fraction * rest[0] + push[0], y + fraction * rest[1] + push[1], stats, game.arena)
    x, y = jnp.where(state.alive, x, state.x), jnp.where(state.alive, y, state.y)
    return replace(state, x=x, y=y, turn_side=turn_side), length


def push_idle(now: Pairs, step: Vector, idle: Bool[Array, " units *batch"], game: Game) -> Vector:
    """Add the steps of idle units that give way to walking allies, at a fraction of their speed."""
    walks = norm(*step) > 0
    pressure = -(now.toward_x * now.others.of(step[0]) + now.toward_y * now.others.of(step[1]))  # [walking, idle]
    teammates = (now.others.slots >= game.num_allies) == add_batch_axes(game.is_enemy, walks)[None]
    pressure = jnp.where(teammates & (now.gap < PUSH_GAP), jnp.maximum(pressure, 0.0), 0.0)
    yields = jnp.where(idle & ~walks, game.rules.idle_push, 0.0)
    push_x, push_y = -(pressure * now.toward_x).sum(axis=0), -(pressure * now.toward_y).sum(axis=0)
    return step[0] + yields * push_x, step[1] + yields * push_y


def approach(now: Pairs, step: Sequence[Array]) -> Float[Array, "others units *batch"]:
    """Return how much nearer each unit's step brings it to each other unit."""
    return now.toward_x * step[0][None] + now.toward_y * step[1][None]


def max_approach(now: Pairs, step: Sequence[Array], game: Game) -> Float[Array, "others units *batch"]:
    """Return how much nearer each unit may come to each other one: the whole gap if that one stands, half if it walks."""
    usable = jnp.where(norm(*step) > 0, 0.5, 1.0)
    return compute_once(lambda: now.others.of(usable) * jnp.maximum(now.gap, 0.0), now.gap, game)


def steer(
    now: Pairs, step: Vector, turn_side: Int[Array, " units *batch"], game: Game
) -> tuple[Float[Array, " units *batch"], Float[Array, " units *batch"], Int[Array, " units *batch"]]:
    """Turn each unit's step to the heading with the largest weighted gain: its course where nothing is in the way.

    A unit that has turned to one side of an obstacle (`turn_side`) prefers that side until its course is free; otherwise it
    would oscillate.
    """
    limit, distance = max_approach(now, step, game), norm(*step)

    def compare(best: tuple[Array, ...], cosine: Scalar, sine: Scalar, weight: Scalar, side: Scalar) -> tuple[Array, ...]:
        best_x, best_y, best_gain, best_side = best
        x, y = cosine * step[0] - sine * step[1], sine * step[0] + cosine * step[1]
        excess = jnp.maximum((approach(now, (x, y)) - limit).max(axis=0), 0.0)
        gain = weight * jnp.where(turn_side * side < 0, OTHER_SIDE, 1.0) * (distance - excess)
        better = gain > best_gain
        best_x, best_y = jnp.where(better, x, best_x), jnp.where(better, y, best_y)
        return best_x, best_y, jnp.where(better, gain, best_gain), jnp.where(better, side, best_side)

    headings = [
        (math.cos(math.radians(angle)), math.sin(math.radians(angle)), weight, (angle > 0) - (angle < 0))
        for angle, weight in HEADINGS.items()
        if abs(angle) <= game.rules.max_turn
    ]
    start = *step, jnp.full_like(distance, -jnp.inf), jnp.zeros_like(turn_side)
    x, y, gain, side = apply_rows(compare, start, headings, game)
    walks = gain > 0
    return jnp.where(walks, x, 0.0), jnp.where(walks, y, 0.0), side.astype(turn_side.dtype)


def slide(state: State, now: Pairs, step: Sequence[Array], game: Game) -> Vector:
    """Remove from each unit's step its component into the body that blocks it most, so that it slides along that body."""
    excess = approach(now, step) - max_approach(now, step, game)
    blocker = now.others.slot(argmin(-excess, game))
    too_far = jnp.maximum(excess.max(axis=0), 0.0)
    x, y = at_target(state.x, blocker, game) - state.x, at_target(state.y, blocker, game) - state.y
    scale = too_far / jnp.maximum(norm(x, y), 1e-6)
    return step[0] - scale * x, step[1] - scale * y


def free_fraction(now: Pairs, step: Vector, game: Game) -> Float[Array, " units *batch"]:
    """Return the fraction of each unit's step that it can take without overlapping another unit."""
    nearer = approach(now, step)
    return jnp.where(nearer > 1e-7, max_approach(now, step, game) / jnp.maximum(nearer, 1e-7), 1.0).min(axis=0, initial=1.0)


def stay_on_map(state: State, step: Sequence[Array], stats: UnitStats, arena: Arena) -> Vector:
    """Shorten steps that would leave the map."""
    x, y = clip_to_map(state.x + step[0], state.y + step[1], stats, arena)
    inside = (x == state.x + step[0]) & (y == state.y + step[1])  # so that other steps keep their exact length
    return jnp.where(inside, step[0], x - state.x), jnp.where(inside, step[1], y - state.y)


def separation(now: Pairs, movable: Bool[Array, " units *batch"]) -> Vector:
    """Return steps that push overlapping units apart; only impossible first states contain such units."""
    fraction = jnp.where(movable, jnp.where(now.others.of(movable), 0.5, 1.0), 0.0)  # two that can move share the overlap
    back = jnp.maximum(-now.gap, 0.0) * fraction
    # Each unit is also pushed a little in its own direction; otherwise units on one line would stay on it.
    angle = add_batch_axes(GOLDEN_ANGLE * jnp.arange(len(movable), dtype=jnp.float32), movable)[None]
    side_x, side_y = PUSH_SIDEWAYS * jnp.cos(angle), PUSH_SIDEWAYS * jnp.sin(angle)
    push_x, push_y = (back * (side_x - now.toward_x)).sum(axis=0), (back * (side_y - now.toward_y)).sum(axis=0)
    limit = jnp.minimum(1.0, MAX_PUSH / jnp.maximum(norm(push_x, push_y), 1e-6))
    return limit * push_x, limit * push_y


def clip_to_map(x: Float[Array, " units *batch"], y: Float[Array, " units *batch"], stats: UnitStats, arena: Arena) -> Vector:
    """Return the nearest positions on the map."""
    radius = stats.collision_radius
    return jnp.clip(x, arena.west + radius, arena.east - radius), jnp.clip(y, arena.south + radius, arena.north - radius)


def separate(state: State, stats: UnitStats, passes: int, arena: Arena) -> Vector:
    """Return the positions of overlapping units after they were pushed apart this many times."""
    contact = contact_distances(state, stats)

    def push_apart(_: Array, position: Vector) -> Vector:
        push = separation(pairs(*position, contact), state.present)
        return clip_to_map(position[0] + push[0], position[1] + push[1], stats, arena)

    return jax.lax.fori_loop(0, passes, push_apart, (state.x, state.y))
