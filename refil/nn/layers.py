"""Maps over rows, initialised as PyTorch does it: every weight and bias uniform within 1/sqrt(fan in)."""

import itertools
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

ALIGNED = 8  # numbers that a GPU's matrix units read at once
MOST_PIECES = 64  # that many rows are cut into, at most, where a GPU adds up over them
LARGE = 2**15  # numbers in a sum that give many of a GPU's processors something to do


def uniform(key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int) -> Array:
    """PyTorch's default for dense and recurrent layers."""
    bound = fan_in**-0.5
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def multiply(rows: Float[Array, "*batch inputs"], weight: Float[Array, "inputs outputs"]) -> Float[Array, "*batch outputs"]:
    """rows @ weight as one flat product: with more axes, XLA's gradient for the CPU is three times slower."""
    return multiply_flat(rows.reshape(-1, rows.shape[-1]), weight).reshape(*rows.shape[:-1], weight.shape[-1])


@jax.custom_vjp
def multiply_flat(rows: Float[Array, "rows inputs"], weight: Float[Array, "inputs outputs"]) -> Float[Array, "rows outputs"]:
    """The same for rows in a row."""
    return rows @ weight


def multiply_backward(kept: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    """Of both factors."""
    rows, weight = kept
    return gradient @ weight.T, columns_together(rows, gradient).astype(weight.dtype)


multiply_flat.defvjp(lambda rows, weight: (rows @ weight, (rows, weight)), multiply_backward)


@jax.custom_vjp
def plus(rows: Float[Array, "..."], bias: Float[Array, "..."]) -> Float[Array, "..."]:
    """rows + bias, which is the same for all rows, and whose gradient is summed up over them in float32.

    In bfloat16 a sum over many rows soon stops growing.
    """
    return rows + bias


def plus_backward(bias: Array, gradient: Array) -> tuple[Array, Array]:
    """Of both."""
    batch = tuple(range(gradient.ndim - bias.ndim))
    return gradient, gradient.sum(axis=batch, dtype=jnp.float32).astype(bias.dtype)


plus.defvjp(lambda rows, bias: (rows + bias, bias), plus_backward)


@jax.custom_vjp
def relu(rows: Float[Array, "..."]) -> Float[Array, "..."]:
    """What is above zero. The gradient needs only what came of it, so that a product's kernel can end with it."""
    return jnp.maximum(rows, 0)


def relu_forward(rows: Array) -> tuple[Array, Array]:
    """What came of it twice: as such, and for the gradient."""
    result = relu(rows)
    return result, result


def relu_backward(result: Array, gradient: Array) -> tuple[Array]:
    """Nothing where nothing came of it."""
    return (jnp.where(result > 0, gradient, 0),)


relu.defvjp(relu_forward, relu_backward)


def columns_together(one: Float[Array, "rows few"], other: Float[Array, "rows some"]) -> Float[Array, "few some"]:
    """one.T @ other in float32."""
    if jax.default_backend() == "gpu":
        return in_pieces(one, other)
    return jnp.matmul(one.T, other, preferred_element_type=jnp.float32)


@jax.custom_batching.custom_vmap
def in_pieces(one: Float[Array, "rows few"], other: Float[Array, "rows some"]) -> Float[Array, "few some"]:
    """The same, piece by piece of the many rows, so that all processors of a GPU have something to do.

    XLA would cut them into pieces as well, but of sizes that it first pads both factors for.
    """
    return in_pieces_at_most(MOST_PIECES, one, other)


@in_pieces.def_vmap
def many_in_pieces(count: int, batched: list[bool], one: Array, other: Array) -> tuple[Array, bool]:
    """Many large sums give the processors enough to do: with fewer pieces each, there is less to write down and add up."""
    large = one.shape[-1] * other.shape[-1] >= LARGE
    most = max(1, MOST_PIECES // count) if large else MOST_PIECES
    return jax.vmap(partial(in_pieces_at_most, most), in_axes=[0 if own else None for own in batched])(one, other), True


def in_pieces_at_most(most: int, one: Array, other: Array) -> Array:
    """The same, in as many pieces as divide the rows."""
    pieces = max(count for count in range(1, most + 1) if len(one) % count == 0)
    parts = (each.reshape(pieces, len(one) // pieces, -1) for each in (one, other))
    return jnp.einsum("prf,prs->pfs", *parts, preferred_element_type=jnp.float32).sum(axis=0)


def aligned(
    rows: Float[Array, "*batch inputs"], weight: Float[Array, "inputs outputs"], bias: Float[Array, " outputs"]
) -> tuple[Float[Array, "*batch wider"], Float[Array, "wider outputs"]]:
    """Two factors of rows @ weight + bias, as wide as a GPU reads best.

    The bias is what a further column of ones is multiplied with. So no kernel is needed to add it, and none to sum up its
    gradient; what is left up to a good width is zero.
    """
    missing = -(rows.shape[-1] + 1) % ALIGNED
    ones, none = jnp.ones((*rows.shape[:-1], 1), rows.dtype), jnp.zeros((*rows.shape[:-1], missing), rows.dtype)
    zeros = jnp.zeros((missing, len(bias)), weight.dtype)
    return jnp.concatenate([rows, ones, none], axis=-1), jnp.concatenate([weight, bias[None], zeros])


class Linear(eqx.Module):
    """rows @ weight + bias."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, rows: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        if jax.default_backend() == "gpu" and rows.shape[-1] % ALIGNED:
            return multiply(*aligned(rows, self.weight, self.bias))
        return plus(multiply(rows, self.weight), self.bias)

    def then(self, following: "Linear") -> "Linear":
        """This map and the following one as one map: nothing non-linear stands between them."""
        return Linear(self.weight @ following.weight, self.bias @ following.weight + following.bias)


def linear(inputs: int, outputs: int, key: PRNGKeyArray) -> Linear:
    """A fresh dense layer."""
    key_weight, key_bias = jax.random.split(key)
    return Linear(uniform(key_weight, (inputs, outputs), inputs), uniform(key_bias, (outputs,), inputs))


class Mlp(eqx.Module):
    """Dense layers with ReLU between them."""

    layers: tuple[Linear, ...]

    def __call__(self, rows: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        for layer in self.layers[:-1]:
            rows = relu(layer(rows))
        return self.layers[-1](rows)


def mlp(widths: tuple[int, ...], key: PRNGKeyArray) -> Mlp:
    """Fresh dense layers from the first of these widths to the last."""
    keys = jax.random.split(key, len(widths) - 1)
    return Mlp(tuple(linear(*pair, k) for pair, k in zip(itertools.pairwise(widths), keys, strict=True)))


class LayerNorm(eqx.Module):
    """Rows with mean 0 and variance 1, then scaled and shifted column by column, with PyTorch's epsilon."""

    scale: Float[Array, " size"]
    shift: Float[Array, " size"]

    def __call__(self, rows: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        exact = rows.astype(jnp.float32)
        centred = exact - exact.mean(axis=-1, keepdims=True)
        normed = centred * jax.lax.rsqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
        scale, shift = self.scale.astype(jnp.float32), self.shift.astype(jnp.float32)
        return (normed * scale + shift).astype(rows.dtype)


def layer_norm(size: int) -> LayerNorm:
    """A fresh one."""
    return LayerNorm(jnp.ones(size), jnp.zeros(size))
