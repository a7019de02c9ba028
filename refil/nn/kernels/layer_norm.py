"""The gradient of layer normalization as one GPU kernel. `refil.nn.layer_norm` defines what it computes.

XLA needs several kernels for it, because the means over each row have to be known before the gradient of the row, and stores
float32 arrays between them. Here one program reads some rows once and writes their gradient once, and the sums over its rows
for the gradients of scale and shift.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

from refil.hardware import kernels
from refil.kernels.call import kernel_call
from refil.kernels.program import Options
from refil.nn.kernels.blocks import is_power_of_two

EPSILON = 1e-5  # PyTorch's
ROWS = 32  # per program: with more, the registers would overflow
MAX_SIZE = 512
NUM_WARPS = 4


def fits(inputs: Float[Array, "rows size"]) -> bool:
    """Return whether the kernel supports this size and can run here."""
    return kernels().yes and is_power_of_two(inputs.shape[-1]) and inputs.shape[-1] <= MAX_SIZE


def layer_norm_backward(
    inputs: Float[Array, "rows size"],
    scale: Float[Array, " size"],
    shift: Float[Array, " size"],
    gradient: Float[Array, "rows size"],
    relu: bool,
    interpret: bool = False,
) -> tuple[Float[Array, "rows size"], Float[Array, " size"], Float[Array, " size"]]:
    """Compute `refil.nn.layer_norm.normalize_backward`; `interpret` runs the kernel on a CPU, for tests."""
    rows, size = inputs.shape
    padding = [(0, -rows % ROWS), (0, 0)]
    padded = [jnp.pad(leaf, padding) if rows % ROWS else leaf for leaf in (inputs, gradient)]
    programs = len(padded[0]) // ROWS
    row_spec = pl.BlockSpec((ROWS, size), lambda i: (i, 0))
    shared_spec = pl.BlockSpec((size,), lambda i: (0,))
    inputs_grad, sums = kernel_call(
        partial(_program, relu),
        out_shape=[
            jax.ShapeDtypeStruct(padded[0].shape, inputs.dtype),
            jax.ShapeDtypeStruct((programs, 2, size), jnp.float32),
        ],
        grid=(programs,),
        in_specs=[row_spec, row_spec, shared_spec, shared_spec],
        out_specs=[row_spec, pl.BlockSpec((None, 2, size), lambda i: (i, 0, 0))],
        options=Options(num_warps=NUM_WARPS, interpret=interpret),
    )(*padded, scale.astype(jnp.float32), shift.astype(jnp.float32))
    scale_grad, shift_grad = sums.sum(axis=0)
    return inputs_grad[:rows], scale_grad, shift_grad


def _program(relu: bool, inputs_ref, gradient_ref, scale_ref, shift_ref, inputs_grad_ref, sums_ref) -> None:
    inputs, gradient = inputs_ref[...].astype(jnp.float32), gradient_ref[...].astype(jnp.float32)
    scale, size = scale_ref[...][None, :], inputs_ref.shape[1]
    centered = inputs - inputs.sum(axis=1, keepdims=True) / size
    inverse = jax.lax.rsqrt((centered * centered).sum(axis=1, keepdims=True) / size + EPSILON)
    normalized = centered * inverse
    if relu:
        gradient = jnp.where(normalized * scale + shift_ref[...][None, :] > 0, gradient, 0.0)
    sums_ref[0] = (gradient * normalized).sum(axis=0)
    sums_ref[1] = gradient.sum(axis=0)
    scaled = gradient * scale
    mean, slope = scaled.sum(axis=1, keepdims=True) / size, (scaled * normalized).sum(axis=1, keepdims=True) / size
    inputs_grad_ref[...] = (inverse * (scaled - mean - normalized * slope)).astype(inputs_grad_ref.dtype)
