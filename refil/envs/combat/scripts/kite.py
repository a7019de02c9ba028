"""Shooters fire when their weapon is ready and nobody is upon them, else they step back from those who fight hand to hand.

Not straight back: that ends at a wall. They go where fighters will be far away and no wall close by, which leads around them.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from refil.envs.combat import orders, tactics
from refil.envs.combat.battle import Battle
from refil.envs.combat.rules import LOOPS, STRIDE
from refil.envs.combat.world import Arena, World

MELEE = 1.0  # weapons of less range
UPON, NEAR = 2.0, 5.0  # edge to edge: those who will soon strike, and those to step back from while reloading
FADES = 1.5  # a fighter so much further away is a third of the danger
CLOSE = 6.0  # to a wall
WALL = 0.02  # of a fighter's danger: what a cell closer to a wall is worth


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
    danger = jnp.where(fighters[:, None], jnp.exp(-away / FADES), 0.0).sum(axis=-1) * jnp.exp(1 / FADES)
    worth = jnp.where(
        battle.available(world)[:, orders.NORTH : orders.FIRST_TARGET],
        -danger - WALL * jnp.maximum(CLOSE - room(x, y, game.arena), 0.0) ** 2,
        -tactics.FAR,
    )
    best = jnp.where(worth.max(axis=1) > -tactics.FAR, orders.NORTH + jnp.argmax(worth, axis=1), orders.STOP)
    chosen = jnp.where(steps_back & ~melee[agents] & world.alive[agents], best, attack)
    return battle.ordered(world, chosen)


def room(x: Float[Array, "..."], y: Float[Array, "..."], arena: Arena) -> Float[Array, "..."]:
    """How far the nearest wall is."""
    sides = x - arena.west, arena.east - x, y - arena.south, arena.north - y
    return jnp.min(jnp.stack(sides), axis=0)
