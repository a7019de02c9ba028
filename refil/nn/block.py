"""A transformer block, applied to all tokens or to the last one only."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nn.kernels import heads as kernel
from refil.nn.layer_norm import LayerNorm, layer_norm
from refil.nn.layers import Linear, Mlp, linear, masked_softmax, matmul, mlp, uniform


class Block(eqx.Module):
    """A transformer block with heads of full width: attention, then a feed-forward layer, each with residual and norm."""

    query_key_value: Float[Array, "size columns"]
    merge: Linear
    norm_attention: LayerNorm
    feed: Mlp
    norm_feed: LayerNorm
    heads: int = eqx.field(static=True)

    def __call__(
        self, tokens: Float[Array, "*batch tokens size"], visible: Bool[Array, "*batch tokens"]
    ) -> Float[Array, "*batch tokens size"]:
        """Every token attends to the visible ones."""
        if self._use_kernel(tokens):
            return self._combine(tokens, self._attend_in_kernel(tokens, tokens, visible))
        columns = matmul(tokens, self.query_key_value)
        columns = columns.reshape(*columns.shape[:-1], 3, self.heads, tokens.shape[-1])
        queries, keys, values = (jnp.swapaxes(columns[..., part, :, :], -3, -2) for part in range(3))
        return self._combine(tokens, self._attend(queries, keys, values, visible))

    def last(
        self, tokens: Float[Array, "*batch tokens size"], visible: Bool[Array, "*batch tokens"]
    ) -> Float[Array, "*batch 1 size"]:
        """Return the block's result for the last token only, with less work."""
        last = tokens[..., -1:, :]
        if self._use_kernel(tokens):
            return self._combine(last, self._attend_in_kernel(last, tokens, visible))
        queries, columns = self._project(last, tokens)
        queries = jnp.swapaxes(queries.reshape(*queries.shape[:-1], self.heads, -1), -3, -2)
        columns = columns.reshape(*columns.shape[:-1], 2, self.heads, tokens.shape[-1])
        keys, values = (jnp.swapaxes(columns[..., part, :, :], -3, -2) for part in range(2))
        return self._combine(last, self._attend(queries, keys, values, visible))

    def _project(self, rows: Array, tokens: Array) -> tuple[Array, Array]:
        """Return the queries of some rows, and keys and values of all tokens."""
        columns = self.heads * tokens.shape[-1]
        return matmul(rows, self.query_key_value[:, :columns]), matmul(tokens, self.query_key_value[:, columns:])

    def _use_kernel(self, tokens: Array) -> bool:
        return kernel.fits(tokens)

    def _attend_in_kernel(self, rows: Array, tokens: Array, visible: Array) -> Array:
        sets = [leaf.reshape(-1, *leaf.shape[-2:]) for leaf in self._project(rows, tokens)]
        attended: Array = kernel.attend(*sets, visible.reshape(-1, visible.shape[-1]), self.heads, False)
        return attended.reshape(*rows.shape[:-1], -1)

    def _attend(self, queries: Array, keys: Array, values: Array, visible: Array) -> Array:
        """Return what each query attends to, all heads side by side."""
        logits = queries @ jnp.swapaxes(keys, -2, -1) * queries.shape[-1] ** -0.5
        attended = jnp.swapaxes(masked_softmax(logits, visible[..., None, None, :]) @ values, -3, -2)
        return attended.reshape(*attended.shape[:-2], -1)

    def _combine(self, tokens: Array, attended: Array) -> Array:
        tokens = self.norm_attention(tokens + self.merge(attended))
        return self.norm_feed(tokens + self.feed(tokens))


def block(size: int, heads: int, key: PRNGKeyArray) -> Block:
    """Initialize a transformer block."""
    key_attention, key_merge, key_feed = jax.random.split(key, 3)
    return Block(
        query_key_value=uniform(key_attention, (size, 3 * heads * size), size),
        merge=linear(heads * size, size, key_merge),
        norm_attention=layer_norm(size),
        feed=mlp((size, 4 * size, size), key_feed),
        norm_feed=layer_norm(size),
        heads=heads,
    )
