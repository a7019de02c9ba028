"""Multi-head attention from agents to the entities they view (paper, supplement; Vaswani et al. 2017).

It is split in two because REFIL looks at one instant through several views: `read` does all products that no view
changes, once; `Reading.through` does what is left for each view.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nn.kernels import attention as attention_kernel
from refil.nn.layers import ALIGNED, Linear, linear, multiply, plus, uniform
from refil.nn.softmax import shares


class Reading(eqx.Module):
    """An instant after the products: whom each agent asks and what each entity has to give, head by head.

    Where `mapped`, gains are the layer's output already and heads only add up; else `output` maps all heads' gains. A head
    has so many `gained` columns; a few more columns than all heads have may follow, for the products' sake.
    """

    projected: Float[Array, "*batch entities columns"]
    output: Linear
    size: int = eqx.field(static=True)
    heads: int = eqx.field(static=True)
    gained: int = eqx.field(static=True)
    mapped: bool = eqx.field(static=True)

    def through(self, views: Bool[Array, "views *batch agents entities"]) -> Float[Array, "views *batch agents outputs"]:
        """What each agent gathers from the entities in view; one that sees nothing gathers the bias alone."""
        gathered = gather(self.projected, views, self.size, self.heads, self.gained, self.mapped)
        return plus(gathered, self.output.bias) if self.mapped else self.output(gathered)


def gather(
    projected: Float[Array, "*batch entities columns"],
    views: Bool[Array, "views *batch agents entities"],
    size: int,
    heads: int,
    gained: int,
    summed: bool,
) -> Float[Array, "views *batch agents outputs"]:
    """What agents gather through each view, heads side by side or summed.

    Columns are `size` queries, as many keys, and gains; each of the three is split evenly among heads. More do not count.
    """
    if attention_kernel.fits(views, size, heads, gained):
        flat = projected.reshape(-1, *projected.shape[-2:]), views.reshape(len(views), -1, *views.shape[-2:])
        gathered = attention_kernel.gather(*flat, size, heads, gained, summed, False)
        return gathered.reshape(*views.shape[:-1], gathered.shape[-1])
    return gather_plainly(projected, views, size, heads, gained, summed)


def gather_plainly(projected: Array, views: Array, size: int, heads: int, gained: int, summed: bool) -> Array:
    """The same by JAX's own products."""
    count, agents, entities = views.shape[0], *views.shape[-2:]
    ends = [size, 2 * size, 2 * size + heads * gained]
    queries, keys, gains = (split(part, heads) for part in jnp.split(projected, ends, axis=-1)[:3])
    logits = queries[..., :agents, :] @ jnp.swapaxes(keys, -2, -1) * keys.shape[-1] ** -0.5
    seen = jnp.moveaxis(views, 0, -3)[..., None, :, :, :]
    weights = shares(logits[..., None, :, :], seen)
    # All views of a head are rows of one product: a separate axis would repeat the gains for each view.
    weights = weights.reshape(*weights.shape[:-3], count * agents, entities)
    if summed:
        gathered = jnp.einsum("...hqe,...hek->...qk", weights, gains)
    else:
        gathered = jnp.swapaxes(weights @ gains, -3, -2)
        gathered = gathered.reshape(*gathered.shape[:-2], -1)
    return jnp.moveaxis(gathered.reshape(*gathered.shape[:-2], count, agents, -1), -3, 0)


def split(rows: Float[Array, "*batch entities columns"], parts: int) -> Float[Array, "*batch parts entities width"]:
    """Rows cut into equal parts."""
    return jnp.swapaxes(rows.reshape(*rows.shape[:-1], parts, -1), -3, -2)


class Attention(eqx.Module):
    """Attention whose output layer is multiplied with whatever linear layer follows it, before any row is touched."""

    query_key_value: Float[Array, "size three_sizes"]
    output: Linear
    heads: int = eqx.field(static=True)

    def read(self, rows: Float[Array, "*batch entities size"], following: Linear | None = None) -> Reading:
        """Prepare to look at these rows; `following` is a linear layer to apply to what is gathered."""
        output = self.output if following is None else self.output.then(following)
        size, outputs = output.weight.shape
        columns = self.query_key_value
        mapped = self.heads * outputs <= size  # where that makes fewer columns, map before gathering
        if mapped:
            values = columns[:, 2 * size :].reshape(size, self.heads, -1)
            values = jnp.einsum("shw,hwk->shk", values, output.weight.reshape(self.heads, -1, outputs))
            columns = jnp.concatenate([columns[:, : 2 * size], values.reshape(size, -1)], axis=1)
        if jax.default_backend() == "gpu":
            columns = jnp.pad(columns, [(0, 0), (0, -columns.shape[1] % ALIGNED)])
        gained = outputs if mapped else size // self.heads
        return Reading(multiply(rows, columns), output, size, self.heads, gained, mapped)


def attention(size: int, heads: int, key: PRNGKeyArray) -> Attention:
    """A fresh attention layer."""
    key_project, key_output = jax.random.split(key)
    return Attention(uniform(key_project, (size, 3 * size), size), linear(size, size, key_output), heads)
