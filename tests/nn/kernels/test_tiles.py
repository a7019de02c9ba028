"""Parts of a transformer block in a kernel; test_updet.py compares whole blocks and their gradients."""

import jax
import jax.numpy as jnp
import numpy as np

from refil.nn.kernels import tiles
from refil.nn.layers import linear


def test_a_vector_can_be_placed_in_a_block_and_picked_from_it():
    block = tiles.place(jnp.array([3.0, 4.0]), 1, 3)
    np.testing.assert_array_equal(block, [[0, 0], [3, 4], [0, 0]])
    np.testing.assert_array_equal(tiles.pick(block, 1), [3, 4])
    np.testing.assert_array_equal(tiles.every_row(block), block)


def test_the_pullback_of_a_dense_layer_is_its_gradient():
    layer, inputs = linear(4, 3, jax.random.key(0)), jax.random.normal(jax.random.key(1), (5, 4))
    gradient = jax.random.normal(jax.random.key(2), (5, 3))
    outputs, pullback = tiles.dense(layer, inputs)
    expected, reference = jax.vjp(layer, inputs)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pullback(gradient), reference(gradient)[0], rtol=1e-5, atol=1e-6)
