"""Layers against their equations."""

import jax
import jax.numpy as jnp
import numpy as np

from refil.nets.layers import layer_norm, linear


def test_layers_begin_within_one_over_the_root_of_the_fan_in():
    layer = linear(25, 400, jax.random.key(0))
    for leaf in (layer.weight, layer.bias):
        assert float(jnp.abs(leaf).max()) <= 0.2
        np.testing.assert_allclose(leaf.std(), 0.2 / np.sqrt(3), rtol=0.1)


def test_two_linear_layers_are_one():
    first, second = linear(3, 5, jax.random.key(0)), linear(5, 2, jax.random.key(1))
    rows = jax.random.normal(jax.random.key(2), (4, 6, 3))
    np.testing.assert_allclose(first.then(second)(rows), second(first(rows)), atol=1e-6)


def test_a_layer_norm_is_pytorchs():
    rows = jax.random.normal(jax.random.key(0), (3, 8)) * 5 + 2
    normed = layer_norm(8)(rows)
    np.testing.assert_allclose(normed.mean(axis=-1), 0, atol=1e-6)
    np.testing.assert_allclose(
        normed, (rows - rows.mean(-1, keepdims=True)) / jnp.sqrt(rows.var(-1, keepdims=True) + 1e-5), atol=1e-5
    )
