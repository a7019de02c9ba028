"""Multi-head attention from agents to the entities in their view (paper, supplement; Vaswani et al. 2017).

REFIL applies the same attention to the same entities through several views (masks). So the layer has two parts:
`Attention.project` computes the queries, keys and values once, and `Projected.attend` applies any number of views to them.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.hardware import on_gpu
from refil.nn.kernels import attention as attention_kernel
from refil.nn.layers import ALIGNMENT, Linear, add_bias, linear, masked_softmax, matmul, uniform


class Projected(eqx.Module):
    """Entities as queries, keys and values, ready to be attended to.

    The last axis of `projections` holds `size` columns of queries, `size` columns of keys, and `value_dim` columns of values
    for each head; columns after these are padding. If `output_merged`, the output weight is already multiplied into the
    values, and the layer's output is the sum over heads plus a bias. Otherwise `output` maps the concatenated heads.
    """

    projections: Float[Array, "*batch entities columns"]
    output: Linear
    size: int = eqx.field(static=True)
    heads: int = eqx.field(static=True)
    value_dim: int = eqx.field(static=True)
    output_merged: bool = eqx.field(static=True)

    def attend(self, views: Bool[Array, "views *batch agents entities"]) -> Float[Array, "views *batch agents outputs"]:
        """Return the layer's output for each view; an agent with nothing in view gets the output bias alone."""
        attended = attend(self.projections, views, self.size, self.heads, self.value_dim, self.output_merged)
        return add_bias(attended, self.output.bias) if self.output_merged else self.output(attended)


def attend(
    projections: Float[Array, "*batch entities columns"],
    views: Bool[Array, "views *batch agents entities"],
    size: int,
    heads: int,
    value_dim: int,
    sum_heads: bool,
) -> Float[Array, "views *batch agents outputs"]:
    """Return the attention-weighted values of the entities in each view, with heads summed or concatenated.

    The columns of `projections` are those of `Projected`; the first entities are the agents, and only they have queries.
    """
    if on_gpu() and attention_kernel.fits(views, size, heads, value_dim):
        flat = projections.reshape(-1, *projections.shape[-2:]), views.reshape(len(views), -1, *views.shape[-2:])
        attended: Array = attention_kernel.attend(*flat, size, heads, value_dim, sum_heads, False)
        return attended.reshape(*views.shape[:-1], attended.shape[-1])
    return attend_xla(projections, views, size, heads, value_dim, sum_heads)


def attend_xla(projections: Array, views: Array, size: int, heads: int, value_dim: int, sum_heads: bool) -> Array:
    """Compute `attend` without the GPU kernel."""
    count, agents, entities = views.shape[0], *views.shape[-2:]
    ends = [size, 2 * size, 2 * size + heads * value_dim]
    queries, keys, values = (_split_heads(part, heads) for part in jnp.split(projections, ends, axis=-1)[:3])
    logits = queries[..., :agents, :] @ jnp.swapaxes(keys, -2, -1) * keys.shape[-1] ** -0.5
    mask = jnp.moveaxis(views, 0, -3)[..., None, :, :, :]
    weights = masked_softmax(logits[..., None, :, :], mask)
    # The views of one head are rows of one product: as a batch axis, they would make XLA copy the values for each view.
    weights = weights.reshape(*weights.shape[:-3], count * agents, entities)
    if sum_heads:
        attended = jnp.einsum("...hqe,...hek->...qk", weights, values)
    else:
        attended = jnp.swapaxes(weights @ values, -3, -2)
        attended = attended.reshape(*attended.shape[:-2], -1)
    return jnp.moveaxis(attended.reshape(*attended.shape[:-2], count, agents, -1), -3, 0)


def _split_heads(columns: Float[Array, "*batch entities columns"], heads: int) -> Float[Array, "*batch heads entities width"]:
    return jnp.swapaxes(columns.reshape(*columns.shape[:-1], heads, -1), -3, -2)


class Attention(eqx.Module):
    """Multi-head attention without biases on queries, keys and values, followed by a dense output layer."""

    query_key_value: Float[Array, "size three_sizes"]
    output: Linear
    heads: int = eqx.field(static=True)

    def project(self, entities: Float[Array, "*batch entities size"], following: Linear | None = None) -> Projected:
        """Compute queries, keys and values of all entities.

        A dense layer `following` is composed with the output layer, which saves one product over all agents and views.
        """
        output = self.output if following is None else self.output.compose(following)
        size, outputs = output.weight.shape
        weight = self.query_key_value
        merge_output = self.heads * outputs <= size  # merging pays where it does not add columns to the values
        if merge_output:
            values = weight[:, 2 * size :].reshape(size, self.heads, -1)
            values = jnp.einsum("shw,hwk->shk", values, output.weight.reshape(self.heads, -1, outputs))
            weight = jnp.concatenate([weight[:, : 2 * size], values.reshape(size, -1)], axis=1)
        if on_gpu():
            weight = jnp.pad(weight, [(0, 0), (0, -weight.shape[1] % ALIGNMENT)])
        value_dim = outputs if merge_output else size // self.heads
        return Projected(matmul(entities, weight), output, size, self.heads, value_dim, merge_output)

    def weights(
        self, entities: Float[Array, "*batch entities size"], visible: Bool[Array, "*batch agents entities"]
    ) -> Float[Array, "*batch heads agents entities"]:
        """Return the attention weights themselves, to inspect them."""
        columns = matmul(entities, self.query_key_value[:, : 2 * len(self.query_key_value)])
        queries, keys = (_split_heads(part, self.heads) for part in jnp.split(columns, 2, axis=-1))
        logits = queries[..., : visible.shape[-2], :] @ jnp.swapaxes(keys, -2, -1) * keys.shape[-1] ** -0.5
        return masked_softmax(logits, visible[..., None, :, :])


def attention(size: int, heads: int, key: PRNGKeyArray) -> Attention:
    """Initialize an attention layer."""
    key_project, key_output = jax.random.split(key)
    return Attention(uniform(key_project, (size, 3 * size), size), linear(size, size, key_output), heads)
