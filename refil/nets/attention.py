"""Multi-head attention from agents to the entities they view (paper, supplement; Vaswani et al. 2017).

It is split in two because REFIL looks at one instant through several views: `read` does all products that no view
changes, once; `Reading.through` does what is left for each view.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nets.layers import Linear, linear, multiply, uniform

HIDDEN = -1e9  # the logit of an entity out of view: finite, so that a row without any view has finite gradients


class Reading(eqx.Module):
    """An instant after the products: how much each agent heeds each entity, and what each head gains from it.

    Where `mapped`, gains are the layer's output already and heads only add up; else `output` maps all heads' gains.
    """

    logits: Float[Array, "*batch heads agents entities"]
    gains: Float[Array, "*batch heads entities size"]
    output: Linear
    mapped: bool = eqx.field(static=True)

    def through(self, views: Bool[Array, "views *batch agents entities"]) -> Float[Array, "views *batch agents outputs"]:
        """What each agent gathers from the entities in view; one that sees nothing gathers the bias alone."""
        count, agents, entities = views.shape[0], *views.shape[-2:]
        seen = jnp.moveaxis(views, 0, -3)[..., None, :, :, :]
        weights = jax.nn.softmax(jnp.where(seen, self.logits[..., None, :, :], HIDDEN), axis=-1) * seen
        # All views of a head are rows of one product: a separate axis would repeat the gains for each view.
        weights = weights.reshape(*weights.shape[:-3], count * agents, entities)
        if self.mapped:
            gathered = jnp.einsum("...hqe,...hek->...qk", weights, self.gains) + self.output.bias
        else:
            per_head = jnp.swapaxes(weights @ self.gains, -3, -2)
            gathered = self.output(per_head.reshape(*per_head.shape[:-2], -1))
        return jnp.moveaxis(gathered.reshape(*gathered.shape[:-2], count, agents, -1), -3, 0)


class Attention(eqx.Module):
    """Attention whose output layer is multiplied with whatever linear layer follows it, before any row is touched."""

    query_key_value: Float[Array, "size three_sizes"]
    output: Linear
    heads: int = eqx.field(static=True)

    def read(self, rows: Float[Array, "*batch entities size"], agents: int, following: Linear | None = None) -> Reading:
        """Prepare to look at these rows; `following` is a linear layer to apply to what is gathered."""
        output = self.output if following is None else self.output.then(following)
        queries_keys, values = jnp.split(self.query_key_value, [2 * rows.shape[-1]], axis=1)
        mapped = self.heads * output.weight.shape[1] <= values.shape[1]  # where fewer columns, map before gathering
        if mapped:
            per_head = self.split(values), output.weight.reshape(self.heads, -1, output.weight.shape[1])
            values = jnp.einsum("shw,hwk->shk", *per_head).reshape(values.shape[0], -1)
        queries, keys = jnp.split(self.split(multiply(rows, queries_keys), 2 * self.heads), 2, axis=-2)
        queries, keys = jnp.swapaxes(queries[..., :agents, :, :], -3, -2), jnp.swapaxes(keys, -3, -2)
        logits = queries @ jnp.swapaxes(keys, -2, -1) * queries.shape[-1] ** -0.5
        return Reading(logits, jnp.swapaxes(self.split(multiply(rows, values)), -3, -2), output, mapped)

    def split(self, columns: Float[Array, "*batch columns"], parts: int = 0) -> Float[Array, "*batch parts width"]:
        """Columns in equal parts, one for each head unless told otherwise."""
        return columns.reshape(*columns.shape[:-1], parts or self.heads, -1)


def attention(size: int, heads: int, key: PRNGKeyArray) -> Attention:
    """A fresh attention layer."""
    key_project, key_output = jax.random.split(key)
    return Attention(uniform(key_project, (size, 3 * size), size), linear(size, size, key_output), heads)
