"""Attention against the textbook, written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn import attention as attention_module
from refil.nn.attention import Attention, attention
from refil.nn.layers import linear

AGENTS, ENTITIES, SIZE, HEADS = 2, 3, 8, 2


def textbook_attention(layer: Attention, entities, view):
    """One timestep and one view, head by head, agent by agent."""
    query, key, value = np.split(np.asarray(entities) @ np.asarray(layer.query_key_value), 3, axis=1)
    width = SIZE // HEADS
    attended = np.zeros((AGENTS, SIZE))
    for head in range(HEADS):
        columns = slice(head * width, (head + 1) * width)
        for agent in range(AGENTS):
            visible = np.flatnonzero(view[agent])
            if len(visible):
                logits = key[visible, columns] @ query[agent, columns] / np.sqrt(width)
                weights = np.exp(logits - logits.max())
                attended[agent, columns] = weights / weights.sum() @ value[visible, columns]
    return attended @ np.asarray(layer.output.weight) + np.asarray(layer.output.bias)


@pytest.fixture(scope="module")
def scene():
    keys = jax.random.split(jax.random.key(0), 3)
    return attention(SIZE, HEADS, keys[0]), jax.random.normal(keys[1], (ENTITIES, SIZE)), keys[2]


VIEWS = jnp.array([[[1, 1, 1], [1, 1, 1]], [[1, 0, 1], [0, 0, 0]], [[0, 1, 0], [1, 1, 0]]], bool)


@pytest.mark.parametrize("outputs", [None, 1, 4, 16])
def test_one_projection_gives_textbook_attention_through_every_view(scene, outputs):
    layer, entities, key = scene
    following = None if outputs is None else linear(SIZE, outputs, key)
    ours = layer.project(entities, following).attend(VIEWS)
    for view, attended in zip(VIEWS, ours, strict=True):
        expected = textbook_attention(layer, entities, view)
        if following is not None:
            expected = expected @ np.asarray(following.weight) + np.asarray(following.bias)
        np.testing.assert_allclose(attended, expected, atol=1e-5)


def test_a_batch_of_timesteps_equals_each_timestep_alone(scene):
    layer, entities, _ = scene
    batch = jnp.stack([entities, 2 * entities, -entities])
    views = jnp.broadcast_to(VIEWS[:, None], (3, 3, AGENTS, ENTITIES))
    ours = layer.project(batch).attend(views)
    for timestep in range(3):
        np.testing.assert_allclose(ours[:, timestep], layer.project(batch[timestep]).attend(VIEWS), atol=1e-6)


def test_an_agent_with_nothing_in_view_gets_the_output_bias(scene):
    layer, entities, _ = scene
    blind = layer.project(entities).attend(jnp.zeros((1, AGENTS, ENTITIES), bool))
    np.testing.assert_allclose(blind[0], np.broadcast_to(layer.output.bias, (AGENTS, SIZE)))


def test_on_a_cpu_no_kernel_is_asked(scene, monkeypatch):
    layer, entities, _ = scene
    monkeypatch.setattr(attention_module, "on_gpu", lambda: False)
    monkeypatch.setattr(attention_module, "attention_kernel", None)
    layer.project(entities).attend(VIEWS)
