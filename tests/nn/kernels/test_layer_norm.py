"""The kernel for the gradient of layer normalization, compared with plain JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn import layer_norm
from refil.nn.kernels import layer_norm as kernel
from tests.nn.kernels.test_gru import program_for_gpu

SIZES = [(64, 32), (50, 16), (3, 128)]


def random_inputs(rows, size, dtype=jnp.float32):
    keys = jax.random.split(jax.random.key(rows), 4)
    shapes = (rows, size), (size,), (size,), (rows, size)
    inputs, *rest = (jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True))
    return tuple(leaf.astype(dtype) for leaf in (3.0 * inputs + 1.0, *rest))


def assert_close(own, expected, tolerance=2e-5):
    own, expected = (np.asarray(leaf, np.float32) for leaf in (own, expected))
    np.testing.assert_allclose(own, expected, atol=tolerance * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_the_kernel_computes_what_plain_jax_computes(sizes, relu):
    inputs = random_inputs(*sizes)
    own = kernel.layer_norm_backward(*inputs, relu, interpret=True)
    jax.tree.map(assert_close, own, layer_norm.normalize_backward(*inputs, relu))


def test_seeds_share_one_kernel_call():
    inputs = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf[::-1]]), random_inputs(64, 32))
    own = jax.vmap(lambda *each: kernel.layer_norm_backward(*each, True, interpret=True))(*inputs)
    jax.tree.map(assert_close, own, jax.vmap(lambda *each: layer_norm.normalize_backward(*each, True))(*inputs))


def test_the_kernel_can_be_lowered_for_a_gpu():
    for dtype in (jnp.float32, jnp.bfloat16):
        assert "triton" in program_for_gpu(
            lambda *each: kernel.layer_norm_backward(*each, True), *random_inputs(64, 128, dtype)
        )


def test_the_kernel_needs_a_gpu_and_a_size_that_is_a_power_of_two():
    assert jax.default_backend() == "gpu" or not kernel.fits(jnp.zeros((2, 64)))
    assert not kernel.fits(jnp.zeros((2, 48)))


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [*SIZES, (50688, 128), (300, 512)])
def test_on_a_gpu_the_kernel_computes_what_plain_jax_computes(sizes):
    inputs = random_inputs(*sizes)
    plain = layer_norm.normalize_backward(*inputs, True)
    jax.tree.map(assert_close, jax.jit(lambda *each: kernel.layer_norm_backward(*each, True))(*inputs), plain)
    rounded = random_inputs(*sizes, jnp.bfloat16)
    own = jax.jit(lambda *each: kernel.layer_norm_backward(*each, True))(*rounded)
    jax.tree.map(lambda a, b: assert_close(a, b, 0.02), own, layer_norm.normalize_backward(*rounded, True))
