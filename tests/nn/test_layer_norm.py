"""Layer normalization."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn.layer_norm import LayerNorm, layer_norm, normalize


def plain(inputs, scale, shift, relu):
    mean, variance = inputs.mean(axis=-1, keepdims=True), inputs.var(axis=-1, keepdims=True)
    outputs = (inputs - mean) / jnp.sqrt(variance + 1e-5) * scale + shift
    return jax.nn.relu(outputs) if relu else outputs


def random_arguments(rows=5, size=8):
    keys = jax.random.split(jax.random.key(0), 3)
    return 5.0 * jax.random.normal(keys[0], (rows, size)) + 2.0, *(jax.random.normal(key, (size,)) for key in keys[1:])


def test_it_follows_pytorch():
    inputs = random_arguments()[0].reshape(1, 5, 8)
    normalized = layer_norm(8)(inputs)
    np.testing.assert_allclose(normalized.mean(axis=-1), 0, atol=1e-6)
    np.testing.assert_allclose(normalized, plain(inputs, 1.0, 0.0, False), atol=1e-5)


@pytest.mark.parametrize("relu", [False, True])
def test_the_gradient_is_that_of_the_formula(relu):
    arguments, weights = random_arguments(), jax.random.normal(jax.random.key(1), (5, 8))

    def gradients(function):
        return jax.grad(lambda *arguments: (weights * function(*arguments, relu)).sum(), argnums=(0, 1, 2))(*arguments)

    np.testing.assert_allclose(normalize(*arguments, relu), plain(*arguments, relu), atol=1e-5)
    for own, expected in zip(gradients(normalize), gradients(plain), strict=True):
        np.testing.assert_allclose(own, expected, atol=1e-5)


def test_bfloat16_is_normalized_in_float32():
    inputs = (1000.0 + random_arguments()[0]).astype(jnp.bfloat16)
    layer = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), LayerNorm(*random_arguments()[1:]))
    outputs = layer(inputs)
    assert outputs.dtype == jnp.bfloat16
    exact = plain(*(leaf.astype(jnp.float32) for leaf in (inputs, layer.scale, layer.shift)), False)
    np.testing.assert_array_equal(outputs, exact.astype(jnp.bfloat16))
