"""Layer normalization, optionally followed by a ReLU, with a hand-written gradient."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from refil.hardware import on_gpu
from refil.nn.kernels import layer_norm as kernel
from refil.nn.kernels.layer_norm import EPSILON


class LayerNorm(eqx.Module):
    """Layer normalization over the last axis, with PyTorch's epsilon, computed in float32."""

    scale: Float[Array, " size"]
    shift: Float[Array, " size"]

    def __call__(self, inputs: Float[Array, "*batch size"], relu: bool = False) -> Float[Array, "*batch size"]:
        """Normalize; with `relu`, also apply a ReLU, whose gradient then costs nothing."""
        rows: Array = normalize(inputs.reshape(-1, inputs.shape[-1]), self.scale, self.shift, relu)
        return rows.reshape(inputs.shape)


def layer_norm(size: int) -> LayerNorm:
    """Initialize a layer normalization with scale 1 and shift 0."""
    return LayerNorm(jnp.ones(size), jnp.zeros(size))


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def normalize(
    inputs: Float[Array, "rows size"], scale: Float[Array, " size"], shift: Float[Array, " size"], relu: bool
) -> Float[Array, "rows size"]:
    """Return normalized inputs in their own dtype."""
    outputs = _normalized(inputs)[0] * scale.astype(jnp.float32) + shift.astype(jnp.float32)
    return (jnp.maximum(outputs, 0) if relu else outputs).astype(inputs.dtype)


def _normalized(inputs: Float[Array, "rows size"]) -> tuple[Float[Array, "rows size"], Float[Array, "rows 1"]]:
    """Return rows of mean zero and variance one in float32, and the factor that each row was multiplied by."""
    exact = inputs.astype(jnp.float32)
    centered = exact - exact.mean(axis=-1, keepdims=True)
    factor = jax.lax.rsqrt((centered**2).mean(axis=-1, keepdims=True) + EPSILON)
    return centered * factor, factor


def _normalize_fwd(inputs: Array, scale: Array, shift: Array, relu: bool) -> tuple[Array, tuple[Array, Array, Array]]:
    return normalize(inputs, scale, shift, relu), (inputs, scale, shift)


def _normalize_bwd(relu: bool, residuals: tuple[Array, Array, Array], gradient: Array) -> tuple[Array, Array, Array]:
    inputs, scale, shift = residuals
    backward = kernel.layer_norm_backward if on_gpu() and kernel.fits(inputs) else normalize_backward
    inputs_grad, scale_grad, shift_grad = backward(inputs, scale, shift, gradient, relu)
    return inputs_grad, scale_grad.astype(scale.dtype), shift_grad.astype(shift.dtype)


normalize.defvjp(_normalize_fwd, _normalize_bwd)


def normalize_backward(
    inputs: Float[Array, "rows size"],
    scale: Float[Array, " size"],
    shift: Float[Array, " size"],
    gradient: Float[Array, "rows size"],
    relu: bool,
) -> tuple[Float[Array, "rows size"], Float[Array, " size"], Float[Array, " size"]]:
    """Return the gradients of inputs, scale and shift, the last two in float32."""
    normalized, factor = _normalized(inputs)
    exact, by_scale = gradient.astype(jnp.float32), scale.astype(jnp.float32)
    if relu:
        exact = jnp.where(normalized * by_scale + shift.astype(jnp.float32) > 0, exact, 0.0)
    scaled = exact * by_scale
    mean, slope = scaled.mean(axis=-1, keepdims=True), (scaled * normalized).mean(axis=-1, keepdims=True)
    inputs_grad = factor * (scaled - mean - normalized * slope)
    return inputs_grad.astype(inputs.dtype), (exact * normalized).sum(axis=0), exact.sum(axis=0)
