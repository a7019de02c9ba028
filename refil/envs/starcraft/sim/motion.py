"""How units walk without passing through one another.

Each first chooses the heading on which it gets furthest, then goes only as far as nobody's body is entered: of the gap
between two that both walk each may use half. The distance after two steps is never less than the gap minus both steps'
parts in its direction, so bodies that do not overlap never will. Those who had to wait for others then catch up.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from refil.envs.starcraft.sim.state import Arena, Game, World, in_turn, length, of, over_batch
from refil.envs.starcraft.sim.unit import Traits

# Degrees off a unit's course, nearest first, and what a step on each is worth.
HEADINGS = {0: 1.0, 25: 0.9, -25: 0.9, 50: 0.75, -50: 0.75, 80: 0.5, -80: 0.5, 110: 0.25, -110: 0.25}
BACK = 0.4  # times that, on the other side of the course than the unit is turned to already
PUSH = 0.1  # the furthest that overlapping bodies are pushed apart in a loop
ASIDE = 0.05  # the part of that which goes in a direction of the unit's own
GOLDEN = math.pi * (3 - 5**0.5)  # turns by this angle never come back to the same direction
TOUCH = 0.05  # one nearer than this to an idle friend in its way pushes it

Number = Shaped[Array, ""] | float | int
Place = tuple[Float[Array, "units *batch"], Float[Array, "units *batch"]]  # x and y, or a step along them


class Pairs(NamedTuple):
    """[other, unit]: the direction from the unit to the other, and how far their bodies are from touching."""

    toward_x: Float[Array, "units units *batch"]
    toward_y: Float[Array, "units units *batch"]
    gap: Float[Array, "units units *batch"]


def contacts(world: World, traits: Traits) -> Float[Array, "units units *batch"]:
    """How near the centres of any two units may come; far less than nothing where the two pass each other freely."""
    apart = ~over_batch(jnp.eye(len(world.x), dtype=bool), world.x)
    meet = (traits.collides[:, None] & traits.collides[None]) != 0
    both = world.alive[:, None] & world.alive[None]
    return jnp.where(apart & meet & both, traits.body[:, None] + traits.body[None], -100.0)


def pairs(x: Float[Array, "units *batch"], y: Float[Array, "units *batch"], contact: Array) -> Pairs:
    """All pairs of units in these places; of two in the same place the later one is in the east."""
    slots = over_batch(jnp.arange(len(x)), x)
    x, y = x[:, None] - x[None], y[:, None] - y[None]
    distance = length(x, y)
    east = jnp.where(slots[:, None] > slots[None], 1.0, -1.0)
    inverse = 1.0 / jnp.maximum(distance, 1e-6)
    return Pairs(jnp.where(distance > 1e-6, x * inverse, east), y * inverse, distance - contact)


def walk(world: World, traits: Traits, step: Place, game: Game) -> World:
    """Everyone where it stands after a loop in which each would like to take this step."""
    contact = contacts(world, traits)
    now = pairs(world.x, world.y, contact)
    if game.rules.idle_yields > 0:
        step = with_pushed(now, step, world.alive & (traits.speed > 0) & (world.target < 0), game)
    *turned, veer = turned_aside(now, step, world.veer, game)
    step = inside(world, along_body(world, now, turned, game), traits, game.arena)
    part = free_part(now, step)
    x, y = world.x + part * step[0], world.y + part * step[1]
    now = pairs(x, y, contact)
    rest = (1 - part) * step[0], (1 - part) * step[1]
    part = free_part(now, rest)
    push = apart(now, traits.speed > 0)
    x, y = on_map(x + part * rest[0] + push[0], y + part * rest[1] + push[1], traits, game.arena)
    return replace(world, x=jnp.where(world.alive, x, world.x), y=jnp.where(world.alive, y, world.y), veer=veer)


def with_pushed(now: Pairs, step: Place, idle: Bool[Array, "units *batch"], game: Game) -> Place:
    """Idle units in the way of a friend would like to give way to it, at a share of its pace."""
    wants = length(*step) > 0
    pressed = -(now.toward_x * step[0][:, None] + now.toward_y * step[1][:, None])  # [walker, idle]
    pressed = jnp.where(over_batch(~game.foes, wants) & (now.gap < TOUCH), jnp.maximum(pressed, 0.0), 0.0)
    yields = jnp.where(idle & ~wants, game.rules.idle_yields, 0.0)
    aside_x, aside_y = -(pressed * now.toward_x).sum(axis=0), -(pressed * now.toward_y).sum(axis=0)
    return step[0] + yields * aside_x, step[1] + yields * aside_y


def into(now: Pairs, step: Sequence[Array]) -> Float[Array, "units units *batch"]:
    """How much nearer each unit's step brings it to each other one."""
    return now.toward_x * step[0][None] + now.toward_y * step[1][None]


def allowed(now: Pairs, step: Sequence[Array]) -> Float[Array, "units units *batch"]:
    """How much nearer each unit may come to each other one: all of the gap to those who stay, half of it otherwise."""
    share = jnp.where(length(*step) > 0, 0.5, 1.0)
    return share[:, None] * jnp.maximum(now.gap, 0.0)


def turned_aside(
    now: Pairs, step: Place, veer: Int[Array, "units *batch"], game: Game
) -> tuple[Float[Array, "units *batch"], Float[Array, "units *batch"], Int[Array, "units *batch"]]:
    """Each unit's step on the heading that gets it furthest, all in all: its course where nothing is in the way.

    Who has turned to one side of an obstacle (`veer`) prefers that side until its course is free: else it would waver.
    """
    may, way = allowed(now, step), length(*step)

    def compare(so_far: tuple[Array, ...], cosine: Number, sine: Number, worth: Number, to: Number) -> tuple[Array, ...]:
        best_x, best_y, best, side = so_far
        x, y = cosine * step[0] - sine * step[1], sine * step[0] + cosine * step[1]
        excess = jnp.maximum((into(now, (x, y)) - may).max(axis=0), 0.0)
        score = worth * jnp.where(veer * to < 0, BACK, 1.0) * (way - excess)
        better = score > best
        best_x, best_y, best = jnp.where(better, x, best_x), jnp.where(better, y, best_y), jnp.where(better, score, best)
        return best_x, best_y, best, jnp.where(better, to, side)

    headings = [
        (math.cos(math.radians(angle)), math.sin(math.radians(angle)), worth, (angle > 0) - (angle < 0))
        for angle, worth in HEADINGS.items()
        if abs(angle) <= game.rules.turning
    ]
    start = *step, jnp.full_like(way, -jnp.inf), jnp.zeros_like(veer)
    best_x, best_y, best, side = in_turn(compare, start, headings, game)
    goes = best > 0
    return jnp.where(goes, best_x, 0.0), jnp.where(goes, best_y, 0.0), side.astype(veer.dtype)


def along_body(world: World, now: Pairs, step: Sequence[Array], game: Game) -> Place:
    """Each unit's step without its part into the body that is most in its way: it slides along that one."""
    excess = into(now, step) - allowed(now, step)
    worst = jnp.argmax(excess, axis=0)
    too_far = jnp.maximum(excess.max(axis=0), 0.0)
    x, y = of(world.x, worst, game) - world.x, of(world.y, worst, game) - world.y
    share = too_far / jnp.maximum(length(x, y), 1e-6)
    return step[0] - share * x, step[1] - share * y


def free_part(now: Pairs, step: Place) -> Float[Array, "units *batch"]:
    """The part of each unit's step that it can take without entering any body."""
    nearer = into(now, step)
    return jnp.where(nearer > 1e-7, allowed(now, step) / jnp.maximum(nearer, 1e-7), 1.0).min(axis=0, initial=1.0)


def inside(world: World, step: Sequence[Array], traits: Traits, arena: Arena) -> Place:
    """The part of each unit's step that stays on the map."""
    x, y = on_map(world.x + step[0], world.y + step[1], traits, arena)
    unhindered = (x == world.x + step[0]) & (y == world.y + step[1])  # so that free steps keep their exact length
    return jnp.where(unhindered, step[0], x - world.x), jnp.where(unhindered, step[1], y - world.y)


def apart(now: Pairs, movable: Bool[Array, "units *batch"]) -> Place:
    """Which way bodies that overlap, as only impossible starts make them, give way to each other."""
    yields = jnp.where(movable, 1.0, 0.0)
    share = yields[None] / jnp.maximum(yields[:, None] + yields[None], 1.0)
    back = jnp.maximum(-now.gap, 0.0) * share
    # A little of it in a direction of each unit's own: a pile on one line would else stay on it.
    own = over_batch(GOLDEN * jnp.arange(len(yields), dtype=jnp.float32), yields)[None]
    own_x, own_y = ASIDE * jnp.cos(own), ASIDE * jnp.sin(own)
    push_x, push_y = (back * (own_x - now.toward_x)).sum(axis=0), (back * (own_y - now.toward_y)).sum(axis=0)
    limit = jnp.minimum(1.0, PUSH / jnp.maximum(length(push_x, push_y), 1e-6))
    return limit * push_x, limit * push_y


def on_map(x: Float[Array, "units *batch"], y: Float[Array, "units *batch"], traits: Traits, arena: Arena) -> Place:
    """The nearest place on the map."""
    body = traits.body
    return jnp.clip(x, arena.west + body, arena.east - body), jnp.clip(y, arena.south + body, arena.north - body)


def spread(world: World, traits: Traits, passes: int, arena: Arena) -> Place:
    """Where units that were put on top of one another come to stand."""
    contact = contacts(world, traits)

    def again(_: Array, place: Place) -> Place:
        push = apart(pairs(*place, contact), world.present)
        return on_map(place[0] + push[0], place[1] + push[1], traits, arena)

    return jax.lax.fori_loop(0, passes, again, (world.x, world.y))
