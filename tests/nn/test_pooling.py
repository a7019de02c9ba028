"""Pooling, with numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn.layers import Linear, linear
from refil.nn.pooling import Pooling, pooling

IDENTITY = Linear(jnp.eye(2), jnp.zeros(2))
ENTITIES = jnp.array([[1.0, -2.0], [3.0, -4.0], [100.0, 100.0]])
VIEWS = jnp.array(
    [
        [[True, True, False], [False, False, False]],
        [[False, True, False], [True, True, True]],
    ]
)


@pytest.mark.parametrize(
    ("kind", "exact", "expected"),
    [
        ("mean", False, [[[4 / 3, -2], [0, 0]], [[1, -4 / 3], [104 / 3, 94 / 3]]]),
        ("mean", True, [[[2, -3], [0, 0]], [[3, -4], [104 / 3, 94 / 3]]]),
        ("max", False, [[[3, 0], [0, 0]], [[3, 0], [100, 100]]]),
        ("max", True, [[[3, -2], [0, 0]], [[3, -4], [100, 100]]]),
    ],
)
def test_entities_out_of_view_count_as_zeros_unless_pooling_is_exact(kind, exact, expected):
    pooled = Pooling(IDENTITY, IDENTITY, kind, exact).project(ENTITIES).attend(VIEWS)
    np.testing.assert_allclose(pooled, expected, rtol=1e-6)


def test_dense_layers_apply_before_and_after_pooling():
    value = Linear(jnp.array([[2.0, 0.0], [0.0, -1.0]]), jnp.array([1.0, 0.0]))  # entities become (3, 2), (7, 4), (201, -100)
    output = Linear(jnp.array([[1.0, 1.0], [1.0, -1.0]]), jnp.array([0.5, 0.0]))
    pooled = Pooling(value, output, "mean", exact=True).project(ENTITIES).attend(VIEWS[:1])
    np.testing.assert_allclose(pooled[0], [[5 + 3 + 0.5, 5 - 3], [0.5, 0.0]], rtol=1e-6)


@pytest.mark.parametrize("kind", ["mean", "max"])
@pytest.mark.parametrize("exact", [False, True])
def test_a_following_layer_is_applied_to_the_output(kind, exact):
    keys = jax.random.split(jax.random.key(0), 3)
    layer, following = pooling(2, kind, exact, keys[0]), linear(2, 3, keys[1])
    entities = jax.random.normal(keys[2], (5, 3, 2))
    views = jnp.broadcast_to(VIEWS[:, None], (2, 5, 2, 3))
    together = layer.project(entities, following).attend(views)
    np.testing.assert_allclose(together, following(layer.project(entities).attend(views)), atol=1e-6)


@pytest.mark.parametrize("kind", ["mean", "max"])
def test_agents_with_equal_views_get_equal_outputs(kind):
    layer = pooling(2, kind, False, jax.random.key(0))
    views = jnp.broadcast_to(jnp.array([True, False, True]), (1, 2, 3))
    first, second = layer.project(ENTITIES).attend(views)[0]
    np.testing.assert_array_equal(first, second)
