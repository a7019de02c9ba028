"""Everyone goes for the nearest enemy; healers for the nearest hurt friend."""

from jaxtyping import PRNGKeyArray

from refil.envs.starcraft import tactics
from refil.envs.starcraft.env import Battle
from refil.envs.starcraft.sim.state import World


def command(battle: Battle, world: World, key: PRNGKeyArray) -> World:
    """Attack what is nearest, else walk there."""
    return battle.ordered(world, tactics.go_for(battle, world, tactics.distances(world)))
