"""Barriers change the order of computations, never the values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn.kernels import overlap


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch):
    """Add data dependencies as on a GPU."""
    monkeypatch.setattr(overlap, "on_gpu", lambda: True)


VALUES = {"a": jnp.arange(3.0), "b": jnp.ones((2, 2), jnp.bfloat16), "count": jnp.arange(2)}


def test_values_behind_a_barrier_stay_the_same_and_depend_on_what_they_wait_for():
    later = overlap.barrier(jnp.array([[3.0, jnp.nan]]), VALUES)
    jax.tree.map(np.testing.assert_array_equal, later, VALUES)
    assert jax.tree.map(lambda leaf: leaf.dtype, later) == jax.tree.map(lambda leaf: leaf.dtype, VALUES)
    spoiled = overlap.barrier(jnp.array([jnp.nan]), VALUES)
    assert bool(jnp.isnan(spoiled["a"]).all())
    assert bool(jnp.isnan(spoiled["b"]).all())
    np.testing.assert_array_equal(spoiled["count"], VALUES["count"])


def test_a_barrier_has_no_gradient():
    gradient = jax.grad(lambda known: overlap.barrier(known, VALUES)["a"].sum())(jnp.ones(2))
    np.testing.assert_array_equal(gradient, [0, 0])


def test_ordered_gradients_have_the_same_values():
    def total(first, others):
        first, others = overlap.backward_first(first, others)
        return 2 * first.sum() + (3 * others["a"]).sum() + others["b"].astype(jnp.float32).sum()

    first, others = jnp.ones(2), {name: VALUES[name] for name in ("a", "b")}
    first_gradient, other_gradients = jax.grad(total, argnums=(0, 1))(first, others)
    np.testing.assert_array_equal(first_gradient, [2, 2])
    np.testing.assert_array_equal(other_gradients["a"], [3, 3, 3])
    np.testing.assert_array_equal(other_gradients["b"].astype(jnp.float32), np.ones((2, 2)))


def test_the_gradients_of_the_others_wait_for_the_first_gradient():
    def total(first, others):
        first, others = overlap.backward_first(first, others)
        return jnp.nan * first.sum() + (3 * others["a"]).sum()

    gradients = jax.grad(total, argnums=1, allow_int=True)(jnp.ones(2), VALUES)
    assert bool(jnp.isnan(gradients["a"]).all())


def test_without_a_gpu_nothing_waits(monkeypatch):
    monkeypatch.setattr(overlap, "on_gpu", lambda: False)
    assert overlap.barrier(jnp.array([jnp.nan]), VALUES) is VALUES
