"""Attack the weakest enemy in target range, or walk to the nearest; healers heal the nearest damaged ally."""

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from refil.envs.starcraft import tactics
from refil.envs.starcraft.env import StarCraft
from refil.envs.starcraft.sim.state import State


def orders(env: StarCraft, state: State, key: PRNGKeyArray) -> State:
    """Target the enemy with the least health and shield, the nearest of equals."""
    heals = env.game.stats(state).heals
    cost = (state.health + state.shield)[None] + 1e-3 * tactics.distances(state)
    cost = jnp.where(heals[:, None], tactics.distances(state), cost)
    return env.with_orders(state, tactics.attack_or_approach(env, state, cost))
