"""Layers against their equations."""

import jax
import jax.numpy as jnp
import numpy as np

from refil.nets.layers import gru, linear


def test_layers_begin_within_one_over_the_root_of_the_fan_in():
    layer = linear(25, 400, jax.random.key(0))
    for leaf in (layer.weight, layer.bias):
        assert float(jnp.abs(leaf).max()) <= 0.2
        np.testing.assert_allclose(leaf.std(), 0.2 / np.sqrt(3), rtol=0.1)
    cell = gru(9, 100, jax.random.key(1))
    assert all(float(jnp.abs(leaf).max()) <= 0.1 for leaf in jax.tree.leaves(cell))


def test_two_linear_layers_are_one():
    first, second = linear(3, 5, jax.random.key(0)), linear(5, 2, jax.random.key(1))
    rows = jax.random.normal(jax.random.key(2), (4, 6, 3))
    np.testing.assert_allclose(first.then(second)(rows), second(first(rows)), atol=1e-6)


def test_the_reset_gate_acts_after_the_memorys_product():
    cell = gru(2, 1, jax.random.key(3))
    inputs, memory = jnp.array([0.3, -0.7]), jnp.array([0.4])
    a, b = cell.from_input(inputs), cell.from_memory(memory)
    reset, update = jax.nn.sigmoid(a[:2] + b[:2])
    new = jnp.tanh(a[2] + reset * b[2])
    np.testing.assert_allclose(cell(a, memory), [(1 - update) * new + update * 0.4], atol=1e-6)


def test_memory_starts_from_nothing_at_every_first_instant():
    cell = gru(2, 3, jax.random.key(4))
    inputs = jax.random.normal(jax.random.key(5), (5, 1, 2))
    first = jnp.array([True, False, False, True, False])[:, None, None]
    memories = cell.unroll(inputs, first)
    np.testing.assert_allclose(memories[3:], cell.unroll(inputs[3:], first[3:]), atol=1e-6)
    assert not np.allclose(memories[3:], cell.unroll(inputs, first.at[3].set(False))[3:], atol=1e-3)
