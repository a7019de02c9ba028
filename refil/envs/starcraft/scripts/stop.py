"""Order all allies to stop in every step."""

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from refil.envs.starcraft.env import StarCraft
from refil.envs.starcraft.orders import STOP
from refil.envs.starcraft.sim.state import State


def orders(env: StarCraft, state: State, key: PRNGKeyArray) -> State:
    """Give every ally the stop order."""
    return env.with_orders(state, jnp.full((env.game.num_allies,), STOP))
