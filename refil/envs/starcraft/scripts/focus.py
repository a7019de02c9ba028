"""Everyone attacks the weakest enemy it may, else walks to the nearest; healers mend the nearest hurt friend."""

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from refil.envs.starcraft import tactics
from refil.envs.starcraft.env import Battle
from refil.envs.starcraft.sim.state import World


def command(battle: Battle, world: World, key: PRNGKeyArray) -> World:
    """The least health and shield first; among equals the nearest."""
    heals = battle.game.table[world.kind].heals
    life = (world.health + world.shield)[None] + 1e-3 * tactics.distances(world)
    return battle.ordered(world, tactics.go_for(battle, world, jnp.where(heals[:, None], tactics.distances(world), life)))
