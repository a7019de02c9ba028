"""Packed batches as rows of time and back."""

import jax
import jax.numpy as jnp
import numpy as np

from refil.nn.packed_rows import from_time_major, to_time_major
from refil.types import PackIndex

INDEX = PackIndex(jnp.array([[3, 0, 5, 99]]), rows=2, timesteps=3)  # the last packed timestep is unused


def test_packed_timesteps_come_back_from_rows_and_so_do_gradients():
    leaf = jnp.arange(1.0, 25.0).reshape(2, 1, 4, 3)  # two views, four packed timesteps, three features
    rows = to_time_major(INDEX, leaf)
    assert rows.shape == (2, 3, 2, 3)  # views, timesteps, rows, features
    np.testing.assert_array_equal(rows[:, 1, 1], leaf[:, 0, 0])
    np.testing.assert_array_equal(rows[:, 0, 0], leaf[:, 0, 1])
    np.testing.assert_array_equal(rows[:, 2, 1], leaf[:, 0, 2])
    assert (rows != 0).sum() == 18
    np.testing.assert_array_equal(from_time_major(INDEX, rows), leaf.at[:, :, 3].set(0))
    weights = jax.random.normal(jax.random.key(0), rows.shape)
    gradient = jax.grad(lambda leaf: (to_time_major(INDEX, leaf) * weights).sum())(leaf)
    np.testing.assert_array_equal(gradient, from_time_major(INDEX, weights))
    gradient = jax.grad(lambda rows: (from_time_major(INDEX, rows) * leaf).sum())(rows)
    np.testing.assert_array_equal(gradient, rows)


def test_trailing_axes_and_booleans_of_any_rank_are_packed_alike():
    for shape in ((), (3,), (3, 2)):
        leaf = jax.random.bernoulli(jax.random.key(0), 0.5, (2, 1, 4, *shape))
        rows = to_time_major(INDEX, leaf)
        assert rows.shape == (2, 3, 2, *shape)
        assert rows.dtype == bool
        np.testing.assert_array_equal(from_time_major(INDEX, rows)[:, :, :3], leaf[:, :, :3])
