"""Shooters fire when their weapon is ready and nobody is upon them, else they step back from those who fight hand to hand.

Not straight back: that ends at a wall. They go where fighters will be far away and no wall close by, which leads around them.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from refil.envs.starcraft import orders, tactics
from refil.envs.starcraft.env import Battle
from refil.envs.starcraft.sim.rules import LOOPS, STRIDE
from refil.envs.starcraft.sim.state import Arena, World

MELEE = 1.0  # weapons of less range
UPON, NEAR = 2.0, 5.0  # edge to edge: those who will soon strike, and those to step back from while reloading
TOUCH, FADES = 1.0, 1.5  # centre to centre: where a fighter's danger is 1, and so much further away a third of that
CLOSE, WALL = 6.0, 0.02  # a wall nearer than that is a danger too, and grows with the square of what is missing


def command(battle: Battle, world: World, key: PRNGKeyArray) -> World:
    """Nearest target, or the best step back."""
    traits, game = battle.game.table[world.kind], battle.game
    agents = slice(0, game.allies)
    attack = tactics.go_for(battle, world, tactics.distances(world))
    melee = traits.armed & (traits.range < MELEE)
    fighters = game.foes[agents] & (melee & world.alive)
    edge = tactics.distances(world) - traits.radius[:, None] - traits.radius
    nearest = jnp.where(fighters, edge[agents], tactics.FAR).min(axis=1)
    steps_back = (nearest < UPON) | ((nearest < NEAR) & (world.cooldown[agents] >= LOOPS / 2))

    x = world.x[agents, None] + STRIDE * orders.EASTWARD[orders.NORTH :]
    y = world.y[agents, None] + STRIDE * orders.NORTHWARD[orders.NORTH :]
    away = jnp.hypot(x[..., None] - world.x, y[..., None] - world.y)
    danger = jnp.where(fighters[:, None], jnp.exp((TOUCH - away) / FADES), 0.0).sum(axis=-1)
    danger += WALL * jnp.maximum(CLOSE - room(x, y, game.arena), 0.0) ** 2
    danger = jnp.where(battle.available(world)[:, orders.NORTH : orders.FIRST_TARGET], danger, tactics.FAR)
    best = jnp.where(danger.min(axis=1) < tactics.FAR, orders.NORTH + jnp.argmin(danger, axis=1), orders.STOP)
    chosen = jnp.where(steps_back & ~melee[agents] & world.alive[agents], best, attack)
    return battle.ordered(world, chosen)


def room(x: Float[Array, "..."], y: Float[Array, "..."], arena: Arena) -> Float[Array, "..."]:
    """How far the nearest wall is."""
    sides = x - arena.west, arena.east - x, y - arena.south, arena.north - y
    return jnp.min(jnp.stack(sides), axis=0)
