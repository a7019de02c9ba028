"""Temporal-difference arithmetic for whole episodes (paper, equation 2).

Arrays are `[batch, time, ...]`. Everything here works for padded and packed batches alike.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from refil import shards
from refil.rollout import greedy
from refil.types import EpisodeBatch

Loss = tuple[Float[Array, ""], dict[str, Float[Array, ""]]]


def action_values(q: Float[Array, "*batch actions"], actions: Int[Array, "*more"]) -> Float[Array, "*batch"]:
    """Return the Q-value of one action of each agent; `actions` may lack leading axes of `q`."""
    chosen = actions[..., None] == jnp.arange(q.shape[-1])
    return jnp.where(chosen, q, 0.0).sum(axis=-1)


def select_q(q: Float[Array, "batch timesteps agents actions"], batch: EpisodeBatch) -> Float[Array, "batch time agents"]:
    """Return the Q-values of the actions that were taken."""
    return action_values(q[:, :-1], batch.actions)


def double_q(
    q: Float[Array, "batch timesteps agents actions"],
    target_q: Float[Array, "batch timesteps agents actions"],
    batch: EpisodeBatch,
) -> Float[Array, "batch time agents"]:
    """Return the value of the next timestep: the online network chooses the actions, the target network values them."""
    return action_values(target_q, greedy(q, batch.observations.available))[:, 1:]


def targets(
    rewards: Float[Array, "*batch"], terminated: Bool[Array, "*batch"], next_values: Float[Array, "*values"], discount: float
) -> Float[Array, "*values"]:
    """Return one-step TD targets, without gradient; a truncated episode bootstraps, a terminated one does not."""
    return jax.lax.stop_gradient(rewards + discount * jnp.where(terminated, 0.0, next_values))


def lambda_targets(
    batch: EpisodeBatch, next_values: Float[Array, "batch time *rest"], discount: float, lambda_: float
) -> Float[Array, "batch time *rest"]:
    """Return TD(lambda) targets, without gradient: lambda 0 is `targets`, lambda 1 the discounted return.

    Traces end with their episode, also where the next episode follows in the same packed row.
    """
    extra = (1,) * (next_values.ndim - 2)
    rewards, terminated, valid = (leaf.reshape(*leaf.shape, *extra) for leaf in (batch.rewards, batch.terminated, batch.valid))
    continues = jnp.pad(valid[:, 1:], [(0, 0), (0, 1)] + [(0, 0)] * len(extra)) & ~terminated

    def step(later: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        reward, terminated, continues, value = now
        next_return = jnp.where(continues, (1 - lambda_) * value + lambda_ * later, value)
        target = reward + discount * jnp.where(terminated, 0.0, next_return)
        return target, target

    time_major = tuple(jnp.moveaxis(leaf, 1, 0) for leaf in (rewards, terminated, continues, next_values))
    _, result = jax.lax.scan(step, jnp.zeros_like(time_major[-1][0]), time_major, reverse=True)
    return jax.lax.stop_gradient(jnp.moveaxis(result, 0, 1))


def squared_error(
    values: Float[Array, "*batch"], td_targets: Float[Array, "*batch"], valid: Bool[Array, "*batch"]
) -> Float[Array, ""]:
    """Return the mean squared error over valid entries."""
    # Masked before squaring: entries after the end of an episode may hold anything.
    errors = jnp.where(valid, values - td_targets, 0.0)
    return (errors**2).sum() / jnp.maximum(_total(valid.sum()), 1)


def loss(values: Float[Array, "*batch"], td_targets: Float[Array, "*batch"], valid: Bool[Array, "*batch"]) -> Loss:
    """Return the mean squared TD error, and as metrics also the variance of the targets, the scale to judge it by."""
    mean = _total(jnp.where(valid, td_targets, 0.0).sum()) / jnp.maximum(_total(valid.sum()), 1)
    td_loss = squared_error(values, td_targets, valid)
    variance = squared_error(jnp.broadcast_to(mean, td_targets.shape), td_targets, valid)
    return td_loss, {"td_loss": td_loss, "target_variance": variance}


def _total(value: Array) -> Array:
    """Return a sum over the whole batch: devices may have a part of it each, and a loss is then their part of the loss."""
    shared = shards.current.get()
    return shared.total(value) if shared and shared.share_batches else value
