"""The GRU against its equations, and its gradient against that of JAX."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn import gru as gru_module
from refil.nn.gru import gru


def test_parameters_are_initialized_within_one_over_the_root_of_the_hidden_size():
    cell = gru(9, 100, jax.random.key(1))
    assert all(float(jnp.abs(leaf).max()) <= 0.1 for leaf in jax.tree.leaves(cell))


def test_the_reset_gate_acts_after_the_hidden_states_product():
    cell = gru(2, 1, jax.random.key(3))
    inputs, hidden = jnp.array([0.3, -0.7]), jnp.array([0.4])
    a, b = cell.input_proj(inputs), cell.hidden_proj(hidden)
    reset, update = jax.nn.sigmoid(a[:2] + b[:2])
    new = jnp.tanh(a[2] + reset * b[2])
    np.testing.assert_allclose(cell(a, hidden), [(1 - update) * new + update * 0.4], atol=1e-6)


def test_the_hidden_state_is_reset_at_the_first_timestep_of_every_episode():
    cell = gru(2, 3, jax.random.key(4))
    inputs = jax.random.normal(jax.random.key(5), (5, 1, 2))
    is_first = jnp.array([True, False, False, True, False])[:, None, None]
    hiddens = unroll(cell, inputs, is_first)
    np.testing.assert_allclose(hiddens[3:], unroll(cell, inputs[3:], is_first[3:]), atol=1e-6)
    assert not np.allclose(hiddens[3:], unroll(cell, inputs, is_first.at[3].set(False))[3:], atol=1e-3)


def unroll(cell, inputs, is_first, start=None):
    """Unroll one view; arrays have time first."""
    start = None if start is None else start[None]
    return cell.unroll(cell.project_inputs(inputs[None]), is_first[None], start)[0]


def unroll_by_scan(cell, inputs, is_first):
    """The same as a scan over the cell, whose gradient is left to JAX."""

    def step(hidden, now):
        inputs, is_first = now
        hidden = cell(cell.input_proj(inputs), jnp.where(is_first, 0.0, hidden))
        return hidden, hidden

    zeros = jnp.zeros((*inputs.shape[1:-1], cell.hidden_proj.weight.shape[0]))
    return jax.lax.scan(step, zeros, (inputs, is_first))[1]


@pytest.mark.parametrize("time", [1, 7, 13])
def test_the_hand_written_gradient_equals_that_of_a_scan(time):
    cell = gru(4, 3, jax.random.key(6))
    inputs = jax.random.normal(jax.random.key(7), (time, 2, 5, 4))
    is_first = jax.random.bernoulli(jax.random.key(8), 0.3, (time, 1, 5, 1)).at[0].set(True)
    weight = jax.random.normal(jax.random.key(9), (time, 2, 5, 3))

    def total(unroll, cell, inputs):
        return (unroll(cell, inputs, is_first) * weight).sum()

    ours = jax.value_and_grad(partial(total, unroll), argnums=(0, 1))(cell, inputs)
    theirs = jax.value_and_grad(partial(total, unroll_by_scan), argnums=(0, 1))(cell, inputs)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6), ours, theirs)
    np.testing.assert_allclose(unroll(cell, inputs, is_first), unroll_by_scan(cell, inputs, is_first), atol=1e-6)


def test_the_gradient_of_a_batch_of_seeds_equals_that_of_each_seed():
    cells = jax.vmap(lambda key: gru(4, 3, key))(jax.random.split(jax.random.key(0), 2))
    inputs = jax.random.normal(jax.random.key(1), (2, 6, 5, 4))
    is_first = jnp.zeros((6, 1, 1), bool).at[0].set(True)

    def gradient(cell, inputs):
        return jax.grad(lambda cell: (unroll(cell, inputs, is_first) ** 2).sum())(cell)

    batched = jax.vmap(gradient)(cells, inputs)
    for seed in range(2):
        alone = gradient(jax.tree.map(lambda leaf, s=seed: leaf[s], cells), inputs[seed])
        jax.tree.map(lambda a, b, s=seed: np.testing.assert_allclose(a[s], b, rtol=1e-4, atol=1e-5), batched, alone)


def test_on_a_cpu_no_kernel_is_asked(monkeypatch):
    cell = gru(4, 16, jax.random.key(0))
    monkeypatch.setattr(gru_module, "on_gpu", lambda: False)
    monkeypatch.setattr(gru_module, "gru_kernel", None)
    inputs, is_first = jnp.ones((3, 2, 4)), jnp.zeros((3, 2, 1), bool)
    jax.grad(lambda cell: unroll(cell, inputs, is_first).sum())(cell)


def test_a_given_first_hidden_state_continues_a_sequence():
    cell = gru(2, 3, jax.random.key(4))
    inputs = jax.random.normal(jax.random.key(5), (6, 2, 2))
    is_first = jnp.zeros((6, 2, 1), bool).at[0].set(True).at[4, 1].set(True)
    whole = unroll(cell, inputs, is_first)
    np.testing.assert_allclose(unroll(cell, inputs[3:], is_first[3:], whole[2]), whole[3:], atol=1e-6)


def test_every_view_has_a_hidden_state_of_its_own():
    cell, inputs = gru(2, 3, jax.random.key(4)), jax.random.normal(jax.random.key(5), (2, 6, 5, 2))
    is_first = jnp.zeros((6, 5, 1), bool).at[0].set(True).at[4, 1].set(True)
    both = cell.unroll(cell.project_inputs(inputs), is_first[None])
    for view in range(2):
        np.testing.assert_allclose(both[view], unroll(cell, inputs[view], is_first), atol=1e-6)


def test_the_gradient_from_a_given_hidden_state_equals_that_of_a_scan():
    cell = gru(4, 3, jax.random.key(6))
    inputs, start = jax.random.normal(jax.random.key(7), (5, 2, 4)), jax.random.normal(jax.random.key(8), (2, 3))
    is_first = jnp.zeros((5, 2, 1), bool).at[2, 1].set(True)

    def by_scan(cell, inputs):
        def step(hidden, now):
            hidden = cell(cell.input_proj(now[0]), jnp.where(now[1], 0.0, hidden))
            return hidden, hidden

        return (jax.lax.scan(step, start, (inputs, is_first))[1] ** 2).sum()

    def by_unroll(cell, inputs):
        return (unroll(cell, inputs, is_first, start) ** 2).sum()

    ours, theirs = (jax.grad(each, argnums=(0, 1))(cell, inputs) for each in (by_unroll, by_scan))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-4), ours, theirs)
