"""How units walk without passing through one another: first each chooses a heading, then bodies are pushed apart."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from refil.envs.combat.unit import Traits
from refil.envs.combat.world import Arena, World, over_batch

HEADINGS = np.radians([0.0, 25.0, -25.0, 50.0, -50.0, 80.0, -80.0, 110.0, -110.0])
TURNING = 0.002  # what a heading costs by its angle in radians, in cells of overlap
MOVING_NEIGHBOUR = 0.6  # overlap with one who walks away too counts less
BLOCKED = 0.6  # of a step: overlap beyond which a unit rather stays
PASSES = 3  # of pushing apart, each loop
PUSH = 0.1  # the furthest that one pass pushes


class Bodies(NamedTuple):
    """What keeps units apart: how near any two may come, and how readily each gives way to the other."""

    contact: Float[Array, "units units *batch"]
    share: Float[Array, "units units *batch"]


def contacts(world: World, traits: Traits) -> Float[Array, "units units *batch"]:
    """How near any two units may come, or less than nothing where they pass."""
    apart = ~over_batch(jnp.eye(len(world.x), dtype=bool), world.x)
    meet = (traits.collides[:, None] & traits.collides[None]) != 0
    both = world.alive[:, None] & world.alive[None]
    return jnp.where(apart & meet & both, traits.body[:, None] + traits.body[None], -1.0)


def shares(
    walking: Bool[Array, "units *batch"],
    idle: Bool[Array, "units *batch"],
    friends: Bool[Array, "units units *batch"],
    idle_yields: float,
) -> Float[Array, "units units *batch"]:
    """The part of an overlap that the first of two makes good: walkers give way, the idle a little and to friends only."""
    yields = jnp.where(walking[:, None], 1.0, jnp.where(idle[:, None] & friends, idle_yields, 0.0))
    return yields / jnp.maximum(yields + jnp.swapaxes(yields, 0, 1), 1e-6)


def walk(
    world: World,
    traits: Traits,
    bodies: Bodies,
    step: tuple[Float[Array, "units *batch"], Float[Array, "units *batch"]],
    arena: Arena,
) -> tuple[Float[Array, "units *batch"], Float[Array, "units *batch"]]:
    """Where everyone stands after a loop in which each would like to take this step."""
    step_x, step_y = turned_aside(world, bodies, *step)
    x, y = world.x + step_x, world.y + step_y
    for _ in range(PASSES):
        x, y = push_apart(x, y, traits, bodies, arena)
    return x, y


def turned_aside(
    world: World, bodies: Bodies, step_x: Float[Array, "units *batch"], step_y: Float[Array, "units *batch"]
) -> tuple[Float[Array, "units *batch"], Float[Array, "units *batch"]]:
    """The step each unit takes: the heading least in the way of others and least off its course, or none."""
    toward_x, toward_y, distance = offsets(world.x, world.y)
    gap = distance - bodies.contact
    near = (bodies.contact > 0) & (gap < 1.0)
    length = jnp.hypot(step_x, step_y)
    weight = jnp.where(length > 0, MOVING_NEIGHBOUR, 1.0)[None]
    best = jnp.full(length.shape, jnp.inf), jnp.zeros_like(length), jnp.zeros_like(length), jnp.zeros_like(length)
    for angle in HEADINGS:
        x = np.cos(angle) * step_x - np.sin(angle) * step_y
        y = np.sin(angle) * step_x + np.cos(angle) * step_y
        # To first order, a small step towards a neighbour shortens the distance by its part in that direction.
        overlap = jnp.where(near, jnp.maximum(toward_x * x[:, None] + toward_y * y[:, None] - gap, 0.0), 0.0)
        overlap = (overlap * weight).sum(axis=1)
        cost = overlap + TURNING * abs(angle)
        better = cost < best[0]
        best = tuple(jnp.where(better, new, old) for new, old in zip((cost, x, y, overlap), best, strict=True))
    free = best[3] <= BLOCKED * length
    return jnp.where(free, best[1], 0.0), jnp.where(free, best[2], 0.0)


def push_apart(
    x: Float[Array, "units *batch"], y: Float[Array, "units *batch"], traits: Traits, bodies: Bodies, arena: Arena
) -> tuple[Float[Array, "units *batch"], Float[Array, "units *batch"]]:
    """One pass: everyone backs off from whom it overlaps, all at once, and stays on the map."""
    toward_x, toward_y, distance = offsets(x, y)
    back = jnp.maximum(bodies.contact - distance, 0.0) * bodies.share
    push_x, push_y = -(back * toward_x).sum(axis=1), -(back * toward_y).sum(axis=1)
    limit = jnp.minimum(1.0, PUSH / jnp.maximum(jnp.hypot(push_x, push_y), 1e-6))
    return inside(x + limit * push_x, y + limit * push_y, traits.body, arena)


def offsets(
    x: Float[Array, "units *batch"], y: Float[Array, "units *batch"]
) -> tuple[Float[Array, "units units *batch"], Float[Array, "units units *batch"], Float[Array, "units units *batch"]]:
    """The direction from each unit to each other one, and how far it is; one on top of another points along x by slot."""
    x, y = x[None] - x[:, None], y[None] - y[:, None]
    distance = jnp.sqrt(x**2 + y**2)
    slots = over_batch(jnp.arange(len(x)), x[0])
    aside = jnp.where(slots[None] > slots[:, None], 1.0, -1.0)
    safe = jnp.maximum(distance, 1e-6)
    return jnp.where(distance > 1e-6, x / safe, aside), jnp.where(distance > 1e-6, y / safe, 0.0), distance


def inside(
    x: Float[Array, "units *batch"], y: Float[Array, "units *batch"], body: Float[Array, "units *batch"], arena: Arena
) -> tuple[Float[Array, "units *batch"], Float[Array, "units *batch"]]:
    """The nearest place on the map."""
    return jnp.clip(x, arena.west + body, arena.east - body), jnp.clip(y, arena.south + body, arena.north - body)


def spread(
    world: World, traits: Traits, passes: int, arena: Arena
) -> tuple[Float[Array, "units *batch"], Float[Array, "units *batch"]]:
    """Where units that were put on top of one another come to stand."""
    contact = contacts(world, traits)
    bodies = Bodies(contact, jnp.full_like(contact, 0.5))
    again: Callable = lambda _, place: push_apart(*place, traits, bodies, arena)  # noqa: E731
    return jax.lax.fori_loop(0, passes, again, (world.x, world.y))
