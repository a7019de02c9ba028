"""What scripts are made of: going for someone, and stepping in a direction."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from refil.envs.starcraft import orders
from refil.envs.starcraft.env import Battle
from refil.envs.starcraft.sim.state import World, length

FAR = 1e6


def distances(world: World) -> Float[Array, "units units"]:
    """From centre to centre."""
    return length(world.x[:, None] - world.x, world.y[:, None] - world.y)


def go_for(battle: Battle, world: World, order: Float[Array, "units units"]) -> Int[Array, " agents"]:
    """Each agent targets whom it may and comes first in this order; where it may nobody, it walks to the nearest.

    Healers go for friends who are hurt, and wait while none is.
    """
    game = battle.game
    traits = game.table[world.kind]
    hurt = world.health < traits.health
    friends = ~game.foes & ~jnp.eye(game.units, dtype=bool) & (traits.heal == 0)[None]
    wanted = (jnp.where(traits.heals[:, None], friends & hurt[None], game.foes) & world.alive[None])[: game.allies]
    offered = battle.available(world)[:, orders.FIRST_TARGET :]
    by_unit = offered[:, jnp.clip(world.tag, 0, offered.shape[1] - 1)] & (world.tag < offered.shape[1]) & (world.tag >= 0)
    rank = jnp.where(by_unit & wanted, order[: game.allies], FAR)
    target = jnp.argmin(rank, axis=1)
    far = jnp.where(wanted, distances(world)[: game.allies], FAR)
    nearest = jnp.argmin(far, axis=1)
    walk = step_along(battle, world, world.x[nearest] - world.x[: game.allies], world.y[nearest] - world.y[: game.allies])
    walk = jnp.where(far.min(axis=1) < FAR, walk, orders.STOP)
    chosen = jnp.where(rank.min(axis=1) < FAR, orders.FIRST_TARGET + world.tag[target], walk)
    return jnp.where(world.alive[: game.allies], chosen, orders.NOTHING)


def step_along(battle: Battle, world: World, x: Array, y: Array) -> Int[Array, " agents"]:
    """The move that leads most in this direction, of those there are; stop where none does."""
    allies = battle.game.allies
    x, y = x[:allies], y[:allies]
    moves = jnp.stack([y, -y, x, -x], axis=1)
    moves = jnp.where(battle.available(world)[:, orders.NORTH : orders.FIRST_TARGET], moves, -FAR)
    return jnp.where(moves.max(axis=1) > 0, orders.NORTH + jnp.argmax(moves, axis=1), orders.STOP)
