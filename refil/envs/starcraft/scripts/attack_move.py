"""The engine's own rule, as the enemies have it: attack-move to where the other side began."""

from jaxtyping import PRNGKeyArray

from refil.envs.starcraft import spawn
from refil.envs.starcraft.env import Battle
from refil.envs.starcraft.sim.state import World


def command(battle: Battle, world: World, key: PRNGKeyArray) -> World:
    """Ordered once, at the beginning."""
    return spawn.attack(world, battle.game, ~battle.game.enemies & (world.time == 0))
