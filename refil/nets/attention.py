"""Multi-head attention from agents to the entities they view (paper, supplement; Vaswani et al. 2017).

It is split in two because REFIL looks at one instant through several views: `read` does all products that no view
changes, once; `Reading.through` does what is left for each view.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nets.layers import Linear, linear, uniform

HIDDEN = -1e9  # the logit of an entity out of view: finite, so that a row without any view has finite gradients


class Reading(eqx.Module):
    """An instant after the products: how much each agent heeds each entity, and what it would gain from it."""

    logits: Float[Array, "*batch heads agents entities"]
    gains: Float[Array, "*batch heads entities size"]
    bias: Float[Array, " size"]

    def through(self, views: Bool[Array, "views *batch agents entities"]) -> Float[Array, "views *batch agents size"]:
        """What each agent gathers from the entities in view; one that sees nothing gathers the bias alone."""
        seen = views[..., None, :, :]
        weights = jax.nn.softmax(jnp.where(seen, self.logits, HIDDEN), axis=-1) * seen
        return jnp.einsum("v...hae,...hek->v...ak", weights, self.gains) + self.bias


class Attention(eqx.Module):
    """Attention whose output layer is multiplied with whatever linear layer follows it, before any row is touched."""

    query_key_value: Float[Array, "size three_sizes"]
    output: Linear
    heads: int = eqx.field(static=True)

    def read(self, rows: Float[Array, "*batch entities size"], agents: int, following: Linear | None = None) -> Reading:
        """Prepare to look at these rows; `following` is a linear layer to apply to what is gathered."""
        output = self.output if following is None else self.output.then(following)
        size, width = rows.shape[-1], rows.shape[-1] // self.heads
        queries_keys, values = jnp.split(self.query_key_value, [2 * size], axis=1)
        # Per head: rows -> values -> outputs is one matrix, so that weights over entities are all that is left to apply.
        per_head = values.reshape(size, self.heads, width), output.weight.reshape(self.heads, width, -1)
        gains = rows[..., None, :, :] @ jnp.einsum("shw,hwk->hsk", *per_head)
        projected = (rows @ queries_keys).reshape(*rows.shape[:-1], 2, self.heads, width)
        queries, keys = projected[..., :agents, 0, :, :], projected[..., 1, :, :]
        logits = jnp.einsum("...ahw,...ehw->...hae", queries, keys) * width**-0.5
        return Reading(logits, gains, output.bias)


def attention(size: int, heads: int, key: PRNGKeyArray) -> Attention:
    """A fresh attention layer."""
    key_project, key_output = jax.random.split(key)
    return Attention(uniform(key_project, (size, 3 * size), size), linear(size, size, key_output), heads)
