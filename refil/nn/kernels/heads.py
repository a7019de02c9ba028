"""Attention among few tokens as one GPU kernel forward and one backward. `refil.nn.block` defines what they compute.

A transformer over 17 tokens has logits of 17 x 17 for every head, agent and timestep. XLA pads, transposes and stores them.
Here one program takes all heads of one such set of tokens and reads queries, keys and values where they lie. The backward
kernel recomputes the attention weights.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Float

from refil.hardware import kernels
from refil.kernels.call import kernel_call, load, store
from refil.kernels.program import Options
from refil.nn.kernels.blocks import MIN_BLOCK, is_power_of_two
from refil.nn.layers import HIDDEN_LOGIT

MAX_TOKENS = 32  # the registers of a warp would overflow with more


def fits(tokens: Float[Array, "*batch tokens size"]) -> bool:
    """Return whether the kernels support heads as wide as these tokens and can run here."""
    count, size = tokens.shape[-2:]
    return kernels().yes and is_power_of_two(size) and MIN_BLOCK <= size <= 64 and count <= MAX_TOKENS


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
@partial(jax.jit, static_argnums=(3, 4))  # so that all blocks of a network are lowered to one kernel
def attend(
    queries: Float[Array, "sets queries columns"],
    keys_values: Float[Array, "sets tokens both_columns"],
    visible: Bool[Array, "sets tokens"],
    heads: int,
    interpret: bool,
) -> Float[Array, "sets queries columns"]:
    """Return what each query attends to, all heads side by side; a visible token must exist.

    `interpret` runs the kernel on a CPU, for tests.
    """
    inputs = [queries, keys_values, visible.astype(jnp.int8)]
    return _run(partial(_attend_program, heads), inputs, [queries], interpret)[0]


@partial(jax.jit, static_argnums=(0, 1))
def _attend_bwd(
    heads: int, interpret: bool, residuals: tuple[Array, Array, Array], gradient: Array
) -> tuple[Array, Array, None]:
    queries, keys_values, visible = residuals
    inputs = [queries, keys_values, visible.astype(jnp.int8), gradient]
    queries_grad, others_grad = _run(partial(_backward_program, heads), inputs, [queries, keys_values], interpret)
    return queries_grad, others_grad, None


attend.defvjp(
    lambda queries, others, visible, heads, interpret: (
        attend(queries, others, visible, heads, interpret),
        (queries, others, visible),
    ),
    _attend_bwd,
)


def _run(kernel, inputs: list[Array], like: list[Array], interpret: bool) -> list[Array]:
    """Run a kernel with one program for each set of tokens; its outputs have the shapes of the arrays `like`."""

    def spec(leaf: Array) -> pl.BlockSpec:
        return pl.BlockSpec((None, *leaf.shape[1:]), lambda i, dims=leaf.ndim: (i,) + (0,) * (dims - 1))

    exact = like[0].dtype == jnp.float32
    results = kernel_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in like],
        grid=(len(inputs[0]),),
        in_specs=[spec(leaf) for leaf in inputs],
        out_specs=[spec(leaf) for leaf in like],
        options=Options(num_warps=4 if exact else 1, num_stages=1, interpret=interpret),
    )(*inputs)
    return list(results)


def _place(ref, first_column: int, size: int):
    """Return the rows of a head, padded to a power of two, and the mask of those that exist."""
    rows = max(MIN_BLOCK, pl.next_power_of_2(ref.shape[0]))
    row, column = jnp.arange(rows)[:, None], jnp.arange(size)[None, :]
    return ref.at[row, first_column + column], jnp.broadcast_to(row < ref.shape[0], (rows, size))


def _load(ref, first_column: int, size: int) -> Array:
    place, exists = _place(ref, first_column, size)
    return load(place, mask=exists, other=0)


def _store(ref, first_column: int, values: Array) -> None:
    place, exists = _place(ref, first_column, values.shape[1])
    store(place, values.astype(ref.dtype), mask=exists)


def _visible(ref) -> Array:
    tokens = ref.shape[0]
    token = jnp.arange(max(MIN_BLOCK, pl.next_power_of_2(tokens)))
    return (load(ref.at[token], mask=token < tokens, other=0) != 0)[None, :]


def _dot(left: Array, right: Array) -> Array:
    return jnp.dot(left, right, preferred_element_type=jnp.float32)


def _weights(query: Array, key: Array, visible: Array) -> Array:
    logits = jnp.where(visible, _dot(query, key.T) * query.shape[1] ** -0.5, HIDDEN_LOGIT)
    raised = jnp.where(visible, jnp.exp(logits - logits.max(axis=1, keepdims=True)), 0.0)
    return raised / raised.sum(axis=1, keepdims=True)


def _attend_program(heads: int, queries_ref, others_ref, visible_ref, attended_ref) -> None:
    size, visible = queries_ref.shape[1] // heads, _visible(visible_ref)
    for head in range(heads):
        query, key = _load(queries_ref, head * size, size), _load(others_ref, head * size, size)
        value = _load(others_ref, (heads + head) * size, size)
        _store(attended_ref, head * size, _dot(_weights(query, key, visible).astype(value.dtype), value))


def _backward_program(
    heads: int, queries_ref, others_ref, visible_ref, gradient_ref, queries_grad_ref, others_grad_ref
) -> None:
    size, visible = queries_ref.shape[1] // heads, _visible(visible_ref)
    for head in range(heads):
        query, gradient = _load(queries_ref, head * size, size), _load(gradient_ref, head * size, size)
        key, value = (_load(others_ref, (part * heads + head) * size, size) for part in range(2))
        weights = _weights(query, key, visible)
        weights_grad = _dot(gradient, value.T)
        logits_grad = weights * (weights_grad - (weights * weights_grad).sum(axis=1, keepdims=True)) * size**-0.5
        logits_grad = logits_grad.astype(key.dtype)
        _store(queries_grad_ref, head * size, _dot(logits_grad, key))
        _store(others_grad_ref, head * size, _dot(logits_grad.T, query))
        _store(others_grad_ref, (heads + head) * size, _dot(weights.T.astype(gradient.dtype), gradient))
