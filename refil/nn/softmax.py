"""Softmax among what is in view."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

HIDDEN = -1e9  # the logit of what is out of view: finite, so that a row without any view has finite gradients


def shares(logits: Float[Array, "..."], seen: Bool[Array, "..."]) -> Float[Array, "..."]:
    """How much each row heeds each column, as shares of what is in view, worked out in float32; 0 where nothing is."""
    masked = jnp.where(seen, logits.astype(jnp.float32), HIDDEN)
    return (jax.nn.softmax(masked, axis=-1) * seen).astype(logits.dtype)
