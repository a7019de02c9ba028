"""How well models do when they act greedily; playing is training's own `collect` without random actions."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from refil import rollout
from refil.types import Env, Model, Trajectory


class Score(eqx.Module):
    """Means over the episodes of each seed."""

    win_rate: Float[Array, " seeds"]
    return_mean: Float[Array, " seeds"]
    length_mean: Float[Array, " seeds"]


def greedy(env: Env, models: Model, episodes: int, keys: Key[Array, " seeds"]) -> Score:
    """So many episodes of each seed's model, every task equally likely; `keys` has one key per seed."""
    return score(rollout.random_tasks(env, models, episodes, jnp.zeros(keys.shape), keys))


def by_task(env: Env, models: Model, episodes: int, keys: Key[Array, " seeds"]) -> Int[Array, "tasks seeds"]:
    """How many of so many episodes of every task each seed's model wins; one task after another, for the memory's sake."""

    def wins(task: Int[Array, ""]) -> Int[Array, " seeds"]:
        own = jax.vmap(lambda key: jax.random.fold_in(key, task))(keys)
        return rollout.collect(env, models, jnp.full((len(keys), episodes), task), jnp.zeros(keys.shape), own).won.sum(axis=1)

    return jax.lax.map(wins, jnp.arange(len(env.task_names)))


def exploring(env: Env, model: Model, episodes: int, key: PRNGKeyArray) -> Score:
    """So many episodes in which every action is left to chance, whatever the model."""
    models = jax.tree.map(lambda leaf: leaf[None], model)
    return score(rollout.random_tasks(env, models, episodes, jnp.ones(1), key[None]))


def score(trajectories: Trajectory) -> Score:
    """What came of recorded episodes."""
    valid = trajectories.valid
    returns = jnp.where(valid, trajectories.rewards, 0.0).sum(axis=-1)
    return Score(trajectories.won.mean(axis=-1), returns.mean(axis=-1), valid.sum(axis=-1).mean(axis=-1))
