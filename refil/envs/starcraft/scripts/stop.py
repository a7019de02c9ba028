"""Everyone stands still."""

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from refil.envs.starcraft import orders
from refil.envs.starcraft.env import Battle
from refil.envs.starcraft.sim.state import World


def command(battle: Battle, world: World, key: PRNGKeyArray) -> World:
    """Stop."""
    return battle.ordered(world, jnp.full((battle.game.allies,), orders.STOP))
