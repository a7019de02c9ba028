"""The arithmetic of double Q-learning on whole episodes (paper, equation 2)."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

UNAVAILABLE = -9999999.0


def greedy(q: Float[Array, "*batch actions"], available: Bool[Array, "*batch actions"]) -> Int[Array, "*batch"]:
    """The best available action."""
    return jnp.argmax(jnp.where(available, q, UNAVAILABLE), axis=-1)


def chosen(q: Float[Array, "*batch actions"], actions: Int[Array, "*more"]) -> Float[Array, "*batch"]:
    """The value of one action of each row; `actions` may lack leading axes of `q`."""
    picked = actions[..., None] == jnp.arange(q.shape[-1])
    return jnp.where(picked, q, 0.0).sum(axis=-1)


def targets(
    rewards: Float[Array, "*batch time"],
    terminated: Bool[Array, "*batch time"],
    next_values: Float[Array, "*batch time"],
    discount: float,
) -> Float[Array, "*batch time"]:
    """Reward plus what follows; an episode cut off by its time limit goes on, a terminated one does not."""
    return rewards + discount * jnp.where(terminated, 0.0, next_values)


def squared_error(
    values: Float[Array, "*batch time"], goals: Float[Array, "*batch time"], valid: Bool[Array, "*batch time"]
) -> Float[Array, ""]:
    """The mean over all valid steps of all episodes."""
    # Errors are cut before squaring: rows after an episode's end may hold anything.
    errors = jnp.where(valid, values - goals, 0.0)
    return (errors**2).sum() / jnp.maximum(valid.sum(), 1)


def report(
    values: Float[Array, "*batch time"], goals: Float[Array, "*batch time"], valid: Bool[Array, "*batch time"]
) -> dict[str, Float[Array, ""]]:
    """The squared error, and the variance of the goals that it is to be measured by."""
    mean = jnp.where(valid, goals, 0.0).sum() / jnp.maximum(valid.sum(), 1)
    return {
        "td_loss": squared_error(values, goals, valid),
        "target_variance": squared_error(jnp.broadcast_to(mean, goals.shape), goals, valid),
    }
