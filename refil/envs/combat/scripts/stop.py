"""Everyone stands still."""

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from refil.envs.combat import orders
from refil.envs.combat.battle import Battle
from refil.envs.combat.world import World


def command(battle: Battle, world: World, key: PRNGKeyArray) -> World:
    """Stop."""
    return battle.ordered(world, jnp.full((battle.game.allies,), orders.STOP))
