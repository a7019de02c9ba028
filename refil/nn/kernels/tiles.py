"""A transformer block in a GPU kernel: blocks of rows in, blocks of rows out, with hand-written gradients.

The layers' leaves are references to weights, which are read where they are used. Every function returns a result and its
pullback: the function from the gradient of the result to that of the argument.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array

from refil.nn.kernels.layer_norm import EPSILON
from refil.nn.layers import HIDDEN_LOGIT

Pullback = Callable[[Array], Array]
Choice = Callable[[Array], Array]  # chooses the rows whose gradient is wanted


def every_row(gradient: Array) -> Array:
    """Choose all rows."""
    return gradient


def _is_row(row: int, shape: tuple[int, ...]) -> Array:
    return jax.lax.broadcasted_iota(jnp.int32, shape, 0) == row


def place(vector: Array, row: int, rows: int) -> Array:
    """Return a block with a vector as one of its rows, and zeros elsewhere."""
    return jnp.where(_is_row(row, (rows, len(vector))), vector[None, :], 0.0)


def pick(block: Array, row: int) -> Array:
    """Return one row of a block as a vector."""
    return jnp.where(_is_row(row, block.shape), block, 0.0).sum(axis=0)


def _dot(left: Array, right: Array) -> Array:
    """Return left @ right, summed in float32, with the right factor's dtype for both."""
    return jnp.dot(left.astype(right.dtype), right, preferred_element_type=jnp.float32)


def dense(linear: Any, inputs: Array) -> tuple[Array, Pullback]:
    """Apply a dense layer."""
    outputs = _dot(inputs, linear.weight[...]) + linear.bias[...].astype(jnp.float32)[None, :]
    return outputs, lambda gradient: _dot(gradient, linear.weight[...].T)


def _normalize(norm: Any, inputs: Array) -> tuple[Array, Pullback]:
    size = inputs.shape[1]
    centered = inputs - inputs.sum(axis=1, keepdims=True) / size
    factor = jax.lax.rsqrt((centered * centered).sum(axis=1, keepdims=True) / size + EPSILON)
    normalized = centered * factor
    scale, shift = (leaf[...].astype(jnp.float32)[None, :] for leaf in (norm.scale, norm.shift))

    def pull_back(gradient: Array) -> Array:
        scaled = gradient * scale
        mean, slope = scaled.sum(axis=1, keepdims=True) / size, (scaled * normalized).sum(axis=1, keepdims=True) / size
        return factor * (scaled - mean - normalized * slope)

    return normalized * scale + shift, pull_back


def _feed(layers: Any, inputs: Array) -> tuple[Array, Pullback]:
    first, second = layers
    hidden, first_pullback = dense(first, inputs)
    active = hidden > 0
    outputs, second_pullback = dense(second, jnp.where(active, hidden, 0.0))
    return outputs, lambda gradient: first_pullback(jnp.where(active, second_pullback(gradient), 0.0))


def transform(block: Any, rows: Array, tokens: Array, visible: Array) -> tuple[Array, Any]:
    """Return a transformer block's result for rows that attend to tokens, and the pullback to both."""
    attended, attend_pullback = _attend(block, rows, tokens, visible)
    normalized, norm_pullback = _normalize(block.norm_attention, rows + attended)
    fed, feed_pullback = _feed(block.feed.layers, normalized)
    outputs, last_pullback = _normalize(block.norm_feed, normalized + fed)

    def pull_back(gradient: Array, chosen: Choice = every_row) -> tuple[Array, Array]:
        gradient = last_pullback(gradient)
        gradient = norm_pullback(gradient + feed_pullback(gradient))
        by_rows, by_tokens = attend_pullback(gradient, chosen)
        return chosen(gradient) + by_rows, by_tokens

    return outputs, pull_back


def _attend(block: Any, rows: Array, tokens: Array, visible: Array) -> tuple[Array, Any]:
    size, dtype = rows.shape[1], block.query_key_value.dtype
    rows, tokens = rows.astype(dtype), tokens.astype(dtype)

    def weight(part: int, head: int) -> Array:
        return block.query_key_value[:, pl.ds((part * block.heads + head) * size, size)]

    def attend(head: int) -> tuple[Array, Any]:
        query, key, value = (
            _dot(factor, weight(part, head)).astype(dtype) for part, factor in enumerate((rows, tokens, tokens))
        )
        logits = jnp.where(visible, _dot(query, key.T) * size**-0.5, HIDDEN_LOGIT)
        raised = jnp.where(visible, jnp.exp(logits - logits.max(axis=1, keepdims=True)), 0.0)
        weights = raised / raised.sum(axis=1, keepdims=True)  # the memory token is always visible, so the sum is positive

        def pull_back(gradient: Array, chosen: Choice) -> tuple[Array, Array]:
            gradient = gradient.astype(dtype)
            weights_grad = _dot(gradient, value.T)
            logits_grad = weights * (weights_grad - (weights * weights_grad).sum(axis=1, keepdims=True)) * size**-0.5
            logits_grad = logits_grad.astype(dtype)
            query_grad, key_grad = _dot(logits_grad, key), _dot(logits_grad.T, query)
            value_grad = _dot(weights.T.astype(dtype), gradient)
            by_query, by_key, by_value = (
                _dot(chosen(each), weight(part, head).T) for part, each in enumerate((query_grad, key_grad, value_grad))
            )
            return by_query, by_key + by_value

        return _dot(weights, value), pull_back

    heads = [attend(head) for head in range(block.heads)]
    merges = [pl.ds(head * size, size) for head in range(block.heads)]
    merged = sum(_dot(each, block.merge.weight[merge, :]) for (each, _), merge in zip(heads, merges, strict=True))

    def pull_back(gradient: Array, chosen: Choice) -> tuple[Array, Array]:
        parts = [
            head_pullback(_dot(gradient, block.merge.weight[merge, :].T), chosen)
            for (_, head_pullback), merge in zip(heads, merges, strict=True)
        ]
        by_rows, by_tokens = zip(*parts, strict=True)
        return reduce(jnp.add, by_rows), reduce(jnp.add, by_tokens)

    return merged + block.merge.bias[...].astype(jnp.float32)[None, :], pull_back
