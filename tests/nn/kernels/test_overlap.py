"""What has to wait stays what it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn.kernels import overlap


@pytest.fixture(autouse=True)
def side_by_side(monkeypatch):
    """As on a GPU."""
    monkeypatch.setattr(overlap, "waits", lambda: True)


NUMBERS = {"a": jnp.arange(3.0), "b": jnp.ones((2, 2), jnp.bfloat16), "count": jnp.arange(2)}


def test_numbers_that_wait_stay_the_same_and_need_what_they_wait_for():
    later = overlap.after(jnp.array([[3.0, jnp.nan]]), NUMBERS)
    jax.tree.map(np.testing.assert_array_equal, later, NUMBERS)
    assert jax.tree.map(lambda leaf: leaf.dtype, later) == jax.tree.map(lambda leaf: leaf.dtype, NUMBERS)
    spoiled = overlap.after(jnp.array([jnp.nan]), NUMBERS)
    assert bool(jnp.isnan(spoiled["a"]).all())
    assert bool(jnp.isnan(spoiled["b"]).all())
    np.testing.assert_array_equal(spoiled["count"], NUMBERS["count"])


def test_to_wait_has_no_gradient():
    gradient = jax.grad(lambda known: overlap.after(known, NUMBERS)["a"].sum())(jnp.ones(2))
    np.testing.assert_array_equal(gradient, [0, 0])


def test_gradients_go_back_in_order():
    def total(first, others):
        first, others = overlap.last_to_go_back(first, others)
        return 2 * first.sum() + (3 * others["a"]).sum() + others["b"].astype(jnp.float32).sum()

    first, others = jnp.ones(2), {name: NUMBERS[name] for name in ("a", "b")}
    to_first, to_others = jax.grad(total, argnums=(0, 1))(first, others)
    np.testing.assert_array_equal(to_first, [2, 2])
    np.testing.assert_array_equal(to_others["a"], [3, 3, 3])
    np.testing.assert_array_equal(to_others["b"].astype(jnp.float32), np.ones((2, 2)))


def test_gradients_of_others_need_the_first_ones():
    def total(first, others):
        first, others = overlap.last_to_go_back(first, others)
        return jnp.nan * first.sum() + (3 * others["a"]).sum()

    to_others = jax.grad(total, argnums=1, allow_int=True)(jnp.ones(2), NUMBERS)
    assert bool(jnp.isnan(to_others["a"]).all())


def test_on_one_processor_nothing_waits(monkeypatch):
    monkeypatch.setattr(overlap, "waits", lambda: False)
    assert overlap.after(jnp.array([jnp.nan]), NUMBERS) is NUMBERS
