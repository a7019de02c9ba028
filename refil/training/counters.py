"""Counters of every seed, the same for all algorithms: steps, episodes and updates; they say what is due."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from refil.training.setup import TrainConfig


class Counters(eqx.Module):
    """Progress of every seed; `metrics` are sums over the `updates_since_log` updates since the last line of metrics."""

    seed: Int[Array, " seeds"]
    episodes: Int[Array, " seeds"]
    env_steps: Int[Array, " seeds"]
    updates: Int[Array, " seeds"]
    next_eval: Int[Array, " seeds"]
    logged_at: Int[Array, " seeds"]
    updates_since_log: Int[Array, " seeds"]
    metrics: dict[str, Float[Array, " seeds"]]


def init(train: TrainConfig, metric_names: list[str], first_seed: Int[Array, ""] | None = None) -> Counters:
    """Return the counters of all seeds before training; a program that is given its first seed is the same for all seeds."""
    seed = (train.seed if first_seed is None else first_seed) + jnp.arange(train.seeds, dtype=jnp.int32)
    zero = jnp.zeros_like(seed)
    return Counters(seed, zero, zero, zero, zero, zero, zero, {name: jnp.zeros(seed.shape) for name in metric_names})


def running(train: TrainConfig, counters: Counters) -> Bool[Array, " seeds"]:
    """Return which seeds have steps left."""
    return counters.env_steps < train.steps


def log_due(train: TrainConfig, log_every: int, counters: Counters) -> Bool[Array, " seeds"]:
    """Return which seeds have a line of metrics due: every `log_every` episodes, and with every evaluation."""
    passed = counters.episodes // log_every > counters.logged_at // log_every
    return (counters.episodes > counters.logged_at) & (passed | eval_due(train, counters))


def eval_due(train: TrainConfig, counters: Counters) -> Bool[Array, " seeds"]:
    """Return which seeds have an evaluation due: after the first episodes, every `eval_every` steps, and at the end."""
    finished = ~running(train, counters)
    return (counters.episodes > counters.logged_at) & (finished | (counters.env_steps >= counters.next_eval))


def mark_logged(train: TrainConfig, log_every: int, counters: Counters) -> Counters:
    """Reset what has been logged."""
    logged, evaluated = log_due(train, log_every, counters), counters.env_steps >= counters.next_eval
    return eqx.tree_at(
        lambda c: (c.next_eval, c.logged_at, c.metrics, c.updates_since_log),
        counters,
        (
            jnp.where(logged & evaluated, counters.env_steps + train.eval_every, counters.next_eval),
            jnp.where(logged, counters.episodes, counters.logged_at),
            jax.tree.map(lambda total: jnp.where(logged, 0.0, total), counters.metrics),
            jnp.where(logged, 0, counters.updates_since_log),
        ),
    )
