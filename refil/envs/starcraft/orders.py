"""What agents may choose and what that makes their units do.

Actions: 0 nothing (the dead only), 1 stop, 2 to 5 north, south, east, west, from 6 on the unit with tag 0, 1, ...
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from refil.envs.starcraft.sim import targeting
from refil.envs.starcraft.sim.rules import ORDER_RANGE, STRIDE
from refil.envs.starcraft.sim.state import NOBODY, Arena, Game, World
from refil.envs.starcraft.sim.unit import GROUND, Traits

NOTHING, STOP, NORTH, SOUTH, EAST, WEST, FIRST_TARGET = range(7)
EASTWARD = np.array([0, 0, 0, 0, 1, -1], np.float32)
NORTHWARD = np.array([0, 0, 1, -1, 0, 0], np.float32)
MOVES = ("north", "south", "east", "west")


def actions(game: Game) -> int:
    """How many actions there are: allies are targets only where something heals."""
    return FIRST_TARGET + (game.units if game.table.any("heal") else game.units - game.allies)


def tag_owner(world: World, game: Game) -> Int[Array, " tags"]:
    """The slot of the unit with each tag, or -1: enemies have the first tags, allies the following ones."""
    tags = jnp.arange(game.units)
    wears = world.tag == tags[:, None]
    return jnp.where(wears.any(axis=1), jnp.argmax(wears, axis=1), NOBODY)


def targeting_action(world: World, game: Game) -> Int[Array, " units"]:
    """The action that targets each unit, or -1 where none does."""
    action = FIRST_TARGET + world.tag.astype(jnp.int32)
    return jnp.where((world.tag >= 0) & (action < actions(game)), action, -1)


def available(world: World, traits: Traits, game: Game) -> Bool[Array, "agents actions"]:
    """What each agent may choose: walking where there is ground, and targets near enough, whatever its weapon."""
    allies = slice(0, game.allies)
    alive = world.alive[allies, None]
    distance = jnp.sqrt((world.x[allies, None] - world.x) ** 2 + (world.y[allies, None] - world.y) ** 2)
    others = jnp.arange(game.units) != jnp.arange(game.allies)[:, None]
    walks = (traits.plane & GROUND) != 0  # healers are offered all who do not only fly
    wanted = jnp.where(traits.heals[allies, None], ~game.enemies & others & walks, game.enemies)
    near = wanted & world.alive & (distance <= ORDER_RANGE) & alive
    owner = tag_owner(world, game)[: actions(game) - FIRST_TARGET]
    targets = near[:, jnp.maximum(owner, 0)] & (owner >= 0)
    return jnp.concatenate([~alive, alive, alive & walkable(world, game), targets], axis=1)


def walkable(world: World, game: Game) -> Bool[Array, "agents moves"]:
    """Whether the cell one step away is ground. Coordinates are cut towards zero, as the wrapper does: so the southern and
    western border of a whole map never forbid anything."""
    x, y, arena = world.x[: game.allies, None], world.y[: game.allies, None], game.arena
    east, north = jnp.asarray(EASTWARD[NORTH:]), jnp.asarray(NORTHWARD[NORTH:])
    return on(jnp.trunc(x + east), jnp.trunc(y + north), arena)


def on(x: Array, y: Array, arena: Arena) -> Bool[Array, "..."]:
    """Whether cells are ground."""
    return (x >= arena.west) & (x < arena.east) & (y >= arena.south) & (y < arena.north)


def give(world: World, actions: Int[Array, " agents"], traits: Traits, game: Game) -> World:
    """Agents' units take their orders; one that cannot be carried out is refused."""
    actions = jnp.pad(actions, (0, game.units - game.allies))
    aims = actions >= FIRST_TARGET
    target = tag_owner(world, game)[jnp.clip(actions - FIRST_TARGET, 0, game.units - 1)]
    refused = aims & ~(targeting.can_hit(target, traits, game) | targeting.can_mend(target, traits, game))
    keeps = game.enemies | ((refused | (actions == NOTHING)) & game.rules.refused_keeps_order)
    move = jnp.where(aims, STOP, actions)
    new = replace(
        world,
        target=jnp.where(aims & ~refused, target, NOBODY).astype(world.target.dtype),
        roams=jnp.zeros_like(world.roams),
        going=(move >= NORTH),
        goal_x=world.x + STRIDE * jnp.asarray(EASTWARD)[move],
        goal_y=world.y + STRIDE * jnp.asarray(NORTHWARD)[move],
    )
    changed = ("target", "roams", "going", "goal_x", "goal_y")
    return replace(world, **{name: jnp.where(keeps, getattr(world, name), getattr(new, name)) for name in changed})
