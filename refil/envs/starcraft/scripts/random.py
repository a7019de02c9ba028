"""Choose random available actions."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from refil.envs.starcraft.env import StarCraft
from refil.envs.starcraft.sim.state import State


def orders(env: StarCraft, state: State, key: PRNGKeyArray) -> State:
    """Choose uniformly among the available actions."""
    noise = jax.random.uniform(key, (env.spec.agents, env.spec.actions))
    return env.with_orders(state, jnp.argmax(jnp.where(env.available_actions(state), noise, -1.0), axis=-1))
