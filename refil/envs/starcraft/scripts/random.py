"""Everyone does something it may do, at random."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from refil.envs.starcraft.env import Battle
from refil.envs.starcraft.sim.state import World


def command(battle: Battle, world: World, key: PRNGKeyArray) -> World:
    """Each available action is equally likely."""
    chance = jax.random.uniform(key, (battle.spec.agents, battle.spec.actions))
    return battle.ordered(world, jnp.argmax(jnp.where(battle.available(world), chance, -1.0), axis=-1))
