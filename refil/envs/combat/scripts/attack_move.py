"""The engine's own rule, as the enemies have it: attack-move to where the other side began."""

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from refil.envs.combat import spawn
from refil.envs.combat.battle import Battle
from refil.envs.combat.world import World


def command(battle: Battle, world: World, key: PRNGKeyArray) -> World:
    """Ordered once, at the beginning."""
    allies = jnp.arange(battle.game.units) < battle.game.allies
    ordered = spawn.attack(world, battle.game, allies & (world.time == 0))
    return ordered
