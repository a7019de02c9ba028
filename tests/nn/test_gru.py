"""The recurrent unit against its equations, and its gradient against JAX's own."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn.gru import gru


def test_it_begins_within_one_over_the_root_of_its_size():
    cell = gru(9, 100, jax.random.key(1))
    assert all(float(jnp.abs(leaf).max()) <= 0.1 for leaf in jax.tree.leaves(cell))


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
    memories = cell.unroll(cell.shares(inputs), first)
    np.testing.assert_allclose(memories[3:], cell.unroll(cell.shares(inputs[3:]), first[3:]), atol=1e-6)
    assert not np.allclose(memories[3:], cell.unroll(cell.shares(inputs), first.at[3].set(False))[3:], atol=1e-3)


def plain_unroll(cell, inputs, first):
    """The same by a scan that leaves the gradient to JAX."""

    def instant(memory, now):
        inputs, first = now
        memory = cell(cell.from_input(inputs), jnp.where(first, 0.0, memory))
        return memory, memory

    nothing = jnp.zeros((*inputs.shape[1:-1], cell.from_memory.weight.shape[0]))
    return jax.lax.scan(instant, nothing, (inputs, first))[1]


@pytest.mark.parametrize("time", [1, 7, 13])
def test_the_written_out_gradient_is_the_scans_own(time):
    cell = gru(4, 3, jax.random.key(6))
    inputs = jax.random.normal(jax.random.key(7), (time, 2, 5, 4))
    first = jax.random.bernoulli(jax.random.key(8), 0.3, (time, 1, 5, 1)).at[0].set(True)
    weight = jax.random.normal(jax.random.key(9), (time, 2, 5, 3))

    def total(unroll, cell, inputs):
        return (unroll(cell, inputs, first) * weight).sum()

    written = jax.value_and_grad(
        partial(total, lambda cell, inputs, first: cell.unroll(cell.shares(inputs), first)), argnums=(0, 1)
    )(cell, inputs)
    plain = jax.value_and_grad(partial(total, plain_unroll), argnums=(0, 1))(cell, inputs)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6), written, plain)
    np.testing.assert_allclose(cell.unroll(cell.shares(inputs), first), plain_unroll(cell, inputs, first), atol=1e-6)


def test_the_written_out_gradient_works_for_many_seeds_at_once():
    cells = jax.vmap(lambda key: gru(4, 3, key))(jax.random.split(jax.random.key(0), 2))
    inputs = jax.random.normal(jax.random.key(1), (2, 6, 5, 4))
    first = jnp.zeros((6, 1, 1), bool).at[0].set(True)

    def gradient(cell, inputs):
        return jax.grad(lambda cell: (cell.unroll(cell.shares(inputs), first) ** 2).sum())(cell)

    together = jax.vmap(gradient)(cells, inputs)
    for seed in range(2):
        alone = gradient(jax.tree.map(lambda leaf, s=seed: leaf[s], cells), inputs[seed])
        jax.tree.map(lambda a, b, s=seed: np.testing.assert_allclose(a[s], b, rtol=1e-4, atol=1e-5), together, alone)
