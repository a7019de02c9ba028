"""What agents see of a battle: rows of features, who sees whom, and what each may do, as the authors' wrapper gives them."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from refil.envs.starcraft import orders
from refil.envs.starcraft.sim.rules import SIGHT
from refil.envs.starcraft.sim.state import Game, World
from refil.envs.starcraft.sim.unit import Table, Traits
from refil.types import Observation


def width(game: Game) -> int:
    """How many features a unit has."""
    return game.units + orders.actions(game) - orders.NORTH + len(game.table.units) + 7 + game.table.any("shield")


def observe(world: World, game: Game) -> Observation:
    """The instant as all agents see it."""
    traits = game.table[world.kind]
    available = orders.available(world, traits, game)
    return Observation(
        entities=features(world, traits, available, game),
        present=world.present,
        alive=world.alive,
        visible=visible(world, game),
        available=available,
        group=game.enemies.astype(jnp.int32),
        targeting_action=orders.targeting_action(world, game),
    )


def visible(world: World, game: Game) -> Bool[Array, "agents units"]:
    """The living see the living within sight; everyone sees itself, even when dead."""
    x, y = world.x[: game.allies, None] - world.x, world.y[: game.allies, None] - world.y
    near = jnp.sqrt(x**2 + y**2) <= SIGHT
    oneself = jnp.arange(game.allies)[:, None] == jnp.arange(game.units)
    both = world.alive[: game.allies, None] & world.alive
    return (near & both) | (oneself & world.present)


def features(
    world: World, traits: Traits, available: Bool[Array, "agents actions"], game: Game
) -> Float[Array, "units features"]:
    """One row per unit: tag and type, also of the dead; what it may do, its strength and place, while it lives."""
    ally = ~game.enemies
    may = jnp.pad(available[:, orders.NORTH :], ((0, game.units - game.allies), (0, 0)))
    strength = [world.health / jnp.maximum(traits.health, 1.0)]
    if game.table.any("shield"):
        strength.append(world.shield / jnp.maximum(traits.shield, 1.0))
    strength.append(jnp.where(ally, world.energy / jnp.maximum(traits.energy_most, 1.0), 0.0))
    strength.append(jnp.where(ally, world.cooldown / jnp.maximum(traits.cooldown_shown, 1.0), 0.0))
    arena = game.arena
    place = [(world.x - arena.centre) / arena.size, (world.y - arena.centre) / arena.size, *from_middle(world)]
    blocks = [
        world.tag[:, None] == jnp.arange(game.units),
        may,
        types(world, game.table),
        jnp.where(world.alive[:, None], jnp.stack([*strength, *place], axis=1), 0.0),
    ]
    return jnp.concatenate([block.astype(jnp.float32) for block in blocks], axis=1)


def types(world: World, table: Table) -> Bool[Array, "units types"]:
    """Which type each unit is of."""
    return world.kind[:, None] == jnp.arange(len(table.units))


def from_middle(world: World) -> tuple[Float[Array, " units"], Float[Array, " units"]]:
    """Where units stand from the mean of all units, the dead where they fell; the furthest is at distance 1."""
    count = jnp.maximum(world.present.sum(), 1)
    x = world.x - jnp.where(world.present, world.x, 0.0).sum() / count
    y = world.y - jnp.where(world.present, world.y, 0.0).sum() / count
    furthest = jnp.where(world.present, jnp.sqrt(x**2 + y**2), 0.0).max()
    return x / jnp.maximum(furthest, 1e-6), y / jnp.maximum(furthest, 1e-6)
