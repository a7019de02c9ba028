"""Tasks of new episodes: all equally often, or more often those that are sometimes won and sometimes lost."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

WINDOW = 100  # latest episodes of a task that its win rate is an exponential average of, roughly
FLOOR = 0.01  # added to each task's learnability; without it, tasks that are always lost or always won would never return


def sample(fraction: float, win_rates: Float[Array, "seeds tasks"], keys: Key[Array, "seeds envs"]) -> Int[Array, "seeds envs"]:
    """Sample tasks: this fraction by learnability p(1 - p), where p is a task's recent win rate, and the others uniformly."""
    tasks = win_rates.shape[-1]
    if not fraction:
        return jax.vmap(jax.vmap(lambda key: jax.random.randint(key, (), 0, tasks)))(keys)
    learnability = win_rates * (1.0 - win_rates) + FLOOR
    probabilities = fraction * learnability / learnability.sum(axis=-1, keepdims=True) + (1.0 - fraction) / tasks
    return jax.vmap(jax.vmap(jax.random.categorical, in_axes=(0, None)))(keys, jnp.log(probabilities))


def update(
    win_rates: Float[Array, "seeds tasks"],
    tasks: Int[Array, "time seeds envs"],
    ended: Bool[Array, "time seeds envs"],
    won: Bool[Array, "time seeds envs"],
) -> Float[Array, "seeds tasks"]:
    """Return the recent win rates after a rollout, in which these episodes ended."""

    def count(tasks: Array, weights: Array) -> Float[Array, " tasks"]:
        return jnp.zeros(win_rates.shape[-1]).at[tasks.ravel()].add(weights.ravel())  # sums of ones are exact in any order

    by_seed = jax.vmap(count, in_axes=1)
    episodes, wins = by_seed(tasks, ended.astype(jnp.float32)), by_seed(tasks, (ended & won).astype(jnp.float32))
    kept = (1.0 - 1.0 / WINDOW) ** episodes
    return kept * win_rates + (1.0 - kept) * wins / jnp.maximum(episodes, 1.0)
