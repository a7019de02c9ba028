"""Choosing actions: greedily, except for a share of chance that shrinks with experience."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from refil.learning import td


def epsilon_at(env_steps: Int[Array, "*batch"], finish: float, steps: int) -> Float[Array, "*batch"]:
    """The share of random actions: from 1 in a straight line to `finish` after `steps` environment steps."""
    return jnp.maximum(finish, 1.0 - (1.0 - finish) * env_steps / steps)


def epsilon_greedy(
    q: Float[Array, "agents actions"], available: Bool[Array, "agents actions"], epsilon: Float[Array, ""], key: PRNGKeyArray
) -> Int[Array, " agents"]:
    """Each agent flips its own coin; a random action is uniform over the available ones."""
    key_coin, key_action = jax.random.split(key)
    anything = jax.random.categorical(key_action, jnp.where(available, 0.0, -jnp.inf))
    explores = jax.random.uniform(key_coin, available.shape[:1]) < epsilon
    return jnp.where(explores, anything, td.greedy(q, available))
