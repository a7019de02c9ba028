"""Instants in the order of time and back."""

import jax
import jax.numpy as jnp
import numpy as np

from refil.nn.time_major import as_it_was, time_first
from refil.types import Turns


def test_what_is_put_in_turn_comes_back_and_its_gradient_too():
    turns = Turns(jnp.array([[3, 0, 5, 99]]), rows=2, instants=3)  # the last has no turn
    leaf = jnp.arange(1.0, 25.0).reshape(2, 1, 4, 3)  # two views, four instants, three numbers each
    in_turn = time_first(turns, leaf, behind=1)
    assert in_turn.shape == (3, 2, 2, 3)  # instants, views, rows, numbers
    np.testing.assert_array_equal(in_turn[1, :, 1], leaf[:, 0, 0])
    np.testing.assert_array_equal(in_turn[0, :, 0], leaf[:, 0, 1])
    np.testing.assert_array_equal(in_turn[2, :, 1], leaf[:, 0, 2])
    assert (in_turn != 0).sum() == 18
    np.testing.assert_array_equal(as_it_was(turns, in_turn, behind=1), leaf.at[:, :, 3].set(0))
    weights = jax.random.normal(jax.random.key(0), in_turn.shape)
    gradient = jax.grad(lambda leaf: (time_first(turns, leaf, behind=1) * weights).sum())(leaf)
    np.testing.assert_array_equal(gradient, as_it_was(turns, weights, behind=1))
    gradient = jax.grad(lambda rows: (as_it_was(turns, rows, behind=1) * leaf).sum())(in_turn)
    np.testing.assert_array_equal(gradient, in_turn)


def test_rows_of_time_are_only_turned_around():
    leaf = jax.random.normal(jax.random.key(0), (2, 5, 4, 3))  # two views, five rows, four instants
    in_turn = time_first(None, leaf, behind=1)
    np.testing.assert_array_equal(in_turn, jnp.moveaxis(leaf, 2, 0))
    np.testing.assert_array_equal(as_it_was(None, in_turn, behind=1), leaf)
