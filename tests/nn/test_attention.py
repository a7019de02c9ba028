"""Attention against the textbook, written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn.attention import Attention, attention
from refil.nn.layers import linear

AGENTS, ENTITIES, SIZE, HEADS = 2, 3, 8, 2


def by_the_book(layer: Attention, rows, view):
    """One instant, one view, head by head, agent by agent."""
    query, key, value = np.split(np.asarray(rows) @ np.asarray(layer.query_key_value), 3, axis=1)
    width = SIZE // HEADS
    gathered = np.zeros((AGENTS, SIZE))
    for head in range(HEADS):
        columns = slice(head * width, (head + 1) * width)
        for agent in range(AGENTS):
            seen = np.flatnonzero(view[agent])
            if len(seen):
                logits = key[seen, columns] @ query[agent, columns] / np.sqrt(width)
                weights = np.exp(logits - logits.max())
                gathered[agent, columns] = weights / weights.sum() @ value[seen, columns]
    return gathered @ np.asarray(layer.output.weight) + np.asarray(layer.output.bias)


@pytest.fixture(scope="module")
def scene():
    keys = jax.random.split(jax.random.key(0), 3)
    return attention(SIZE, HEADS, keys[0]), jax.random.normal(keys[1], (ENTITIES, SIZE)), keys[2]


VIEWS = jnp.array([[[1, 1, 1], [1, 1, 1]], [[1, 0, 1], [0, 0, 0]], [[0, 1, 0], [1, 1, 0]]], bool)


@pytest.mark.parametrize("outputs", [None, 1, 4, 16])
def test_all_views_of_one_reading_are_textbook_attention(scene, outputs):
    layer, rows, key = scene
    following = None if outputs is None else linear(SIZE, outputs, key)
    ours = layer.read(rows, following).through(VIEWS)
    for view, gathered in zip(VIEWS, ours, strict=True):
        expected = by_the_book(layer, rows, view)
        if following is not None:
            expected = expected @ np.asarray(following.weight) + np.asarray(following.bias)
        np.testing.assert_allclose(gathered, expected, atol=1e-5)


def test_batches_are_instants_side_by_side(scene):
    layer, rows, _ = scene
    many = jnp.stack([rows, 2 * rows, -rows])
    views = jnp.broadcast_to(VIEWS[:, None], (3, 3, AGENTS, ENTITIES))
    ours = layer.read(many).through(views)
    for instant in range(3):
        np.testing.assert_allclose(ours[:, instant], layer.read(many[instant]).through(VIEWS), atol=1e-6)


def test_an_agent_that_sees_nothing_gathers_the_bias(scene):
    layer, rows, _ = scene
    blind = layer.read(rows).through(jnp.zeros((1, AGENTS, ENTITIES), bool))
    np.testing.assert_allclose(blind[0], np.broadcast_to(layer.output.bias, (AGENTS, SIZE)))
