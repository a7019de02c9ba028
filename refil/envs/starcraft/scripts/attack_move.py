"""Attack-move to where the enemy started, as the enemies do."""

from jaxtyping import PRNGKeyArray

from refil.envs.starcraft import spawn
from refil.envs.starcraft.env import StarCraft
from refil.envs.starcraft.sim.state import State


def orders(env: StarCraft, state: State, key: PRNGKeyArray) -> State:
    """Give the order once, in the first step."""
    return spawn.attack_move(state, env.game, ~env.game.is_enemy & (state.time == 0))
