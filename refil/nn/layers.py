"""Dense layers and masked softmax, initialized as in PyTorch and written for fast gradients."""

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import PyTreeDef
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.hardware import on_gpu

ALIGNMENT = 8  # GPU matrix units load this many columns at once
HIDDEN_LOGIT = -1e9  # logit of masked entries; finite, so that rows without any visible entry have finite gradients
MAX_SPLITS = 64  # most partial products that `split_k_matmul` cuts a product into
MANY_ROWS, FEW_COLUMNS = 2**18, 32  # products of at least and at most these are cut into aligned chunks
LARGE_PRODUCT = 2**15  # output elements from which a few batched products keep the whole GPU busy


def uniform(key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int) -> Array:
    """Sample weights uniformly within 1/sqrt(fan_in), PyTorch's default for dense and recurrent layers."""
    bound = fan_in**-0.5
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def masked_softmax(logits: Float[Array, "..."], mask: Bool[Array, "..."]) -> Float[Array, "..."]:
    """Return the softmax over the last axis of the entries where `mask` is true, and zeros elsewhere.

    It is computed in float32 and returned in the logits' dtype. Rows without a true entry are all zeros.
    """
    masked = jnp.where(mask, logits.astype(jnp.float32), HIDDEN_LOGIT)
    return (jax.nn.softmax(masked, axis=-1) * mask).astype(logits.dtype)


def matmul(
    inputs: Float[Array, "*batch inputs"], weight: Float[Array, "inputs outputs"], dtype: DTypeLike | None = None
) -> Float[Array, "*batch outputs"]:
    """Return inputs @ weight, computed as one 2D product; `dtype` is that of the result (None: that of the inputs).

    With more axes, XLA's gradient on CPUs is three times slower. The weight's gradient is accumulated in float32.
    """
    flat: Array = _flat_matmul(inputs.reshape(-1, inputs.shape[-1]), weight, inputs.dtype if dtype is None else dtype)
    return flat.reshape(*inputs.shape[:-1], weight.shape[-1])


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _flat_matmul(
    inputs: Float[Array, "rows inputs"], weight: Float[Array, "inputs outputs"], dtype: DTypeLike
) -> Float[Array, "rows outputs"]:
    return jnp.matmul(inputs, weight, preferred_element_type=dtype)


def _flat_matmul_bwd(dtype: DTypeLike, residuals: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    inputs, weight = residuals
    gradient = gradient.astype(inputs.dtype)
    return gradient @ weight.T, weight_gradient(inputs, gradient).astype(weight.dtype)


_flat_matmul.defvjp(lambda inputs, weight, dtype: (_flat_matmul(inputs, weight, dtype), (inputs, weight)), _flat_matmul_bwd)


def weight_gradient(
    inputs: Float[Array, "rows inputs"], gradient: Float[Array, "rows outputs"]
) -> Float[Array, "inputs outputs"]:
    """Return inputs.T @ gradient, accumulated in float32: the weight's gradient of a dense layer."""
    if on_gpu():
        return split_k_matmul(inputs, gradient)
    return jnp.matmul(inputs.T, gradient, preferred_element_type=jnp.float32)


@jax.custom_batching.custom_vmap
def split_k_matmul(left: Float[Array, "rows inputs"], right: Float[Array, "rows outputs"]) -> Float[Array, "inputs outputs"]:
    """Return left.T @ right, accumulated in float32, as a sum of partial products over equal chunks of the rows.

    There are many more rows than outputs, so one product would leave most of a GPU's processors idle. XLA splits such
    products as well, but into chunks whose sizes force it to pad both factors first.
    """
    return _split_k_matmul(MAX_SPLITS, left, right)


@split_k_matmul.def_vmap
def _batched_split_k_matmul(batch: int, batched: list[bool], left: Array, right: Array) -> tuple[Array, bool]:
    # A batch of large products keeps the GPU busy with fewer chunks each, which leaves fewer partial sums to store and add.
    large = left.shape[-1] * right.shape[-1] >= LARGE_PRODUCT
    max_splits = max(1, MAX_SPLITS // batch) if large else MAX_SPLITS
    in_axes = [0 if is_batched else None for is_batched in batched]
    return jax.vmap(partial(_split_k_matmul, max_splits), in_axes=in_axes)(left, right), True


def _split_k_matmul(max_splits: int, left: Array, right: Array) -> Array:
    splits = chunk_count(len(left), min(left.shape[-1], right.shape[-1]), max_splits)
    chunks = (factor.reshape(splits, len(left) // splits, -1) for factor in (left, right))
    return jnp.einsum("pri,pro->pio", *chunks, preferred_element_type=jnp.float32).sum(axis=0)


def chunk_count(rows: int, columns: int, most: int) -> int:
    """Return into how many equal chunks to cut the rows of a product; `columns` is the width of the narrower factor."""
    long = rows >= MANY_ROWS and columns <= FEW_COLUMNS
    if long:  # XLA would cut long chunks again, and copy both factors to pad them
        most *= 8
    counts = [count for count in range(1, most + 1) if rows % count == 0]
    aligned = [count for count in counts if long and rows // count % ALIGNMENT == 0]
    return max(aligned or counts)


@jax.custom_vjp
def add_bias(inputs: Float[Array, "..."], bias: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return inputs + bias, broadcast over leading axes. The bias's gradient is accumulated in float32.

    A bfloat16 sum over many rows stops growing once its addends are smaller than its rounding error.
    """
    return inputs + bias


def _add_bias_bwd(bias: Array, gradient: Array) -> tuple[Array, Array]:
    batch_axes = tuple(range(gradient.ndim - bias.ndim))
    return gradient, gradient.sum(axis=batch_axes, dtype=jnp.float32).astype(bias.dtype)


add_bias.defvjp(lambda inputs, bias: (inputs + bias, bias), _add_bias_bwd)


@jax.custom_vjp
def relu(inputs: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return max(inputs, 0).

    The gradient is computed from the output alone. The input need not be stored, so XLA can fuse the ReLU into the matrix
    product before it.
    """
    return jnp.maximum(inputs, 0)


def _relu_fwd(inputs: Array) -> tuple[Array, Array]:
    outputs = relu(inputs)
    return outputs, outputs


def _relu_bwd(outputs: Array, gradient: Array) -> tuple[Array]:
    return (jnp.where(outputs > 0, gradient, 0),)


relu.defvjp(_relu_fwd, _relu_bwd)


def pad_and_merge_bias(
    inputs: Float[Array, "*batch inputs"], weight: Float[Array, "inputs outputs"], bias: Float[Array, " outputs"]
) -> tuple[Float[Array, "*batch padded"], Float[Array, "padded outputs"]]:
    """Return two factors whose product is inputs @ weight + bias, with the inner axis padded to a multiple of `ALIGNMENT`.

    The bias becomes a row of the weight, multiplied by a column of ones in the inputs; the rest of the padding is zero.
    So the product itself adds the bias, and the weight's gradient contains the bias's: neither needs a kernel.
    """
    missing = -(inputs.shape[-1] + 1) % ALIGNMENT
    batch = inputs.shape[:-1]
    ones, zeros = jnp.ones((*batch, 1), inputs.dtype), jnp.zeros((*batch, missing), inputs.dtype)
    zero_rows = jnp.zeros((missing, len(bias)), weight.dtype)
    return jnp.concatenate([inputs, ones, zeros], axis=-1), jnp.concatenate([weight, bias[None], zero_rows])


class Linear(eqx.Module):
    """A dense layer: inputs @ weight + bias."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        if on_gpu() and inputs.shape[-1] % ALIGNMENT:
            return matmul(*pad_and_merge_bias(inputs, self.weight, self.bias))
        return add_bias(matmul(inputs, self.weight), self.bias)

    def compose(self, following: "Linear") -> "Linear":
        """Return the one dense layer that equals this layer followed by another, with no activation in between."""
        return Linear(self.weight @ following.weight, self.bias @ following.weight + following.bias)


def linear(inputs: int, outputs: int, key: PRNGKeyArray) -> Linear:
    """Initialize a dense layer."""
    key_weight, key_bias = jax.random.split(key)
    return Linear(uniform(key_weight, (inputs, outputs), inputs), uniform(key_bias, (outputs,), inputs))


class Mlp(eqx.Module):
    """Dense layers with a ReLU between each two."""

    layers: tuple[Linear, ...]

    def __call__(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        for layer in self.layers[:-1]:
            inputs = relu(layer(inputs))
        return self.layers[-1](inputs)


def mlp(sizes: tuple[int, ...], key: PRNGKeyArray) -> Mlp:
    """Initialize an MLP with the given layer sizes, from input to output."""
    keys = jax.random.split(key, len(sizes) - 1)
    return Mlp(tuple(linear(*pair, k) for pair, k in zip(itertools.pairwise(sizes), keys, strict=True)))


@dataclass(frozen=True)
class ParameterLayout:
    """The arrays of a model as one vector: a GPU takes about as long for each of many small arrays as for one large one."""

    structure: PyTreeDef  # pyright: ignore[reportInvalidTypeForm] (JAX defines this class as a variable)
    shapes: tuple[tuple[int, ...], ...]

    def ravel(self, model: Any) -> Float[Array, " parameters"]:
        """Concatenate all arrays of a model."""
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(model)])

    def unravel(self, vector: Float[Array, "*seeds parameters"]) -> Any:
        """Return the model that a vector holds."""
        ends = itertools.accumulate(math.prod(shape) for shape in self.shapes)
        parts = jnp.split(vector, list(ends)[:-1], axis=-1)
        leaves = [part.reshape(*vector.shape[:-1], *shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)


def parameter_layout(model: Any) -> ParameterLayout:
    """Return the layout of a model's arrays in a vector."""
    return ParameterLayout(jax.tree.structure(model), tuple(leaf.shape for leaf in jax.tree.leaves(model)))
