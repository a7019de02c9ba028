"""The first instant of a battle: two armies on opposite sides, units of a type bunched together."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from refil.envs.starcraft.sim import motion
from refil.envs.starcraft.sim.rules import QUIET
from refil.envs.starcraft.sim.state import NOBODY, Arena, Game, World

JITTER = 1.0  # each type of each army is put off its army's place by up to this much


def still(
    kind: Int[Array, " units"],
    x: Float[Array, " units"],
    y: Float[Array, " units"],
    tag: Int[Array, " units"],
    game: Game,
) -> World:
    """Fresh units in these places, without orders."""
    traits = game.table[kind]
    nothing, nobody = jnp.zeros_like(x), jnp.full(kind.shape, NOBODY, jnp.int16)
    no = jnp.zeros(kind.shape, bool)
    return World(
        kind=kind.astype(jnp.int8),
        tag=tag.astype(jnp.int16),
        x=x,
        y=y,
        health=traits.health,
        shield=traits.shield,
        energy=traits.energy,
        cooldown=nothing,
        pace=nothing,
        veer=jnp.zeros(kind.shape, jnp.int8),
        quiet=jnp.full(kind.shape, QUIET, jnp.int16),
        target=nobody,
        attacker=nobody,
        roams=no,
        going=no,
        goal_x=x,
        goal_y=y,
        time=jnp.zeros((), jnp.int32),
    )


def spawn(kind: Int[Array, " units"], key: PRNGKeyArray, game: Game) -> World:
    """Armies of these kinds, and the enemy on its way to where the agents stand."""
    key_place, key_tags = jax.random.split(key)
    x, y = places(kind, key_place, game)
    world = still(kind, x, y, tags(kind, key_tags, game), game)
    return attack(world, game, game.enemies)


def attack(world: World, game: Game, side: Array) -> World:
    """The units of a side attack-move to the middle of the other one."""
    other = world.present & ~side
    count = jnp.maximum(other.sum(), 1)
    goal_x = jnp.where(other, world.x, 0.0).sum() / count
    goal_y = jnp.where(other, world.y, 0.0).sum() / count
    if not game.arena.rotates:  # the classic maps' trigger names the spawn point itself
        goal_x, goal_y = (middle[jnp.argmin(side)] for middle in points(jnp.zeros(()), game))
    ordered = side & world.present
    return replace(
        world,
        roams=world.roams | ordered,
        going=world.going | ordered,
        goal_x=jnp.where(ordered, goal_x, world.goal_x),
        goal_y=jnp.where(ordered, goal_y, world.goal_y),
    )


def points(angle: Float[Array, ""], game: Game) -> tuple[Float[Array, " units"], Float[Array, " units"]]:
    """Where the army of each unit starts; at angle 0 the enemies are in the east on the classic maps."""
    arena = game.arena
    ally = ~game.enemies
    angle = angle if arena.rotates else jnp.asarray(np.pi, jnp.float32)
    sign = jnp.where(ally, 1.0, -1.0) * arena.apart
    return arena.centre + sign * jnp.cos(angle), arena.centre + sign * jnp.sin(angle)


def places(kind: Int[Array, " units"], key: PRNGKeyArray, game: Game) -> tuple[Float[Array, " units"], Float[Array, " units"]]:
    """Units of a type start in one point, as close together as their bodies allow, in the order of their x."""
    key_angle, key_jitter, key_turn = jax.random.split(key, 3)
    angle = jax.random.uniform(key_angle, (), maxval=2 * np.pi)
    x, y = points(angle, game)
    ally = ~game.enemies
    blocks = len(game.table.units) + 1  # of an army: one for each type, and one for empty slots
    block = kind + 1 + jnp.where(ally, 0, blocks)
    jitter = jax.random.uniform(key_jitter, (2, 2 * blocks), minval=-JITTER, maxval=JITTER)
    jitter = jitter if game.arena.rotates else jnp.zeros_like(jitter)
    # A spiral of golden angles is nearly as dense as can be, so that few passes bring the bodies apart.
    earlier = (block[:, None] == block) & (jnp.arange(game.units)[:, None] > jnp.arange(game.units))
    rank = earlier.sum(axis=1)
    turn = jax.random.uniform(key_turn, (2 * blocks,), maxval=2 * np.pi)[block]
    reach = 0.5 * game.table[kind].body * jnp.sqrt(rank.astype(jnp.float32))
    x = x + jitter[0][block] + reach * jnp.cos(turn + motion.GOLDEN * rank)
    y = y + jitter[1][block] + reach * jnp.sin(turn + motion.GOLDEN * rank)
    world = still(kind, x, y, jnp.zeros_like(kind), game)
    x, y = motion.spread(world, game.table[kind], 40 + 2 * game.units, game.arena)
    in_order = jnp.lexsort((y, x, block))
    slots = jnp.argsort(block, stable=True)  # the n-th unit of a block gets the n-th place of that block
    return jnp.zeros_like(x).at[slots].set(x[in_order]), jnp.zeros_like(y).at[slots].set(y[in_order])


def tags(kind: Int[Array, " units"], key: PRNGKeyArray, game: Game) -> Int[Array, " units"]:
    """A tag for every unit, drawn anew in every battle: enemies have the first ones, allies those after them."""
    key_ally, key_enemy = jax.random.split(key)
    enemies = game.units - game.allies
    ally = enemies + jax.random.permutation(key_ally, game.allies)
    enemy = jax.random.permutation(key_enemy, enemies)
    return jnp.where(kind >= 0, jnp.concatenate([ally, enemy]), NOBODY)


def on_the_map(x: float, y: float, body: float, arena: Arena) -> bool:
    """Whether a body lies within the walkable ground."""
    return arena.west + body <= x <= arena.east - body and arena.south + body <= y <= arena.north - body
