"""Entity message passing against its definition in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn.messages import MessageEncoder, message_encoder
from tests.methods import by_hand


def attended(layer, own, others, in_view):
    """What one agent attends to, head by head."""
    if not in_view.any():
        return np.zeros_like(own)
    size = len(own)
    width = size // layer.heads
    query, weights, parts = own @ np.asarray(layer.query), np.asarray(layer.key_value), []
    for start in range(0, size, width):
        part = slice(start, start + width)
        keys = others[in_view] @ weights[:, :size][:, part]
        values = others[in_view] @ weights[:, size:][:, part]
        parts.append(by_hand.softmax(keys @ query[part] / np.sqrt(width)) @ values)
    return np.concatenate(parts)


def expected_encoding(net: MessageEncoder, inputs, view, rounds):
    """The encoding of each agent after all rounds, agent by agent."""
    agents = view.shape[0]
    own = np.maximum([by_hand.dense(net.embed_agents, row) for row in inputs[:agents]], 0)
    others = np.maximum([by_hand.dense(net.embed_others, row) for row in inputs[agents:]], 0)
    seen = [attended(net.entity_attention, own[a], others, view[a, agents:]) for a in range(agents)]
    own = np.maximum([by_hand.dense(net.entity_merge, np.concatenate([own[a], seen[a]])) for a in range(agents)], 0)
    for _ in range(rounds):
        heard = [attended(net.message_attention, own[a], own, view[a, :agents]) for a in range(agents)]
        own = np.maximum([by_hand.dense(net.message_merge, np.concatenate([own[a], heard[a]])) for a in range(agents)], 0)
    return own


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_the_encoding_after_several_rounds_of_messages(rounds):
    draw = np.random.default_rng(0)
    net = message_encoder(4, 8, 2, rounds, jax.random.key(0))
    inputs = draw.normal(size=(5, 4)).astype(np.float32)
    view = np.array([[1, 1, 0, 1, 0], [1, 1, 1, 0, 0], [0, 1, 1, 0, 0]], bool)
    result = net(jnp.asarray(inputs), jnp.asarray(view)[None])[0]
    np.testing.assert_allclose(result, expected_encoding(net, inputs, view, rounds), rtol=1e-4, atol=1e-5)


def test_messages_carry_what_other_agents_see_as_many_hops_as_there_are_rounds():
    inputs = jax.random.normal(jax.random.key(1), (4, 3))
    chain = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1]], bool)  # only the last agent sees the entity
    for rounds, reaches in ((1, False), (2, True)):
        net = message_encoder(3, 8, 2, rounds, jax.random.key(2))
        before = net(inputs, jnp.asarray(chain)[None])[0][0]
        after = net(inputs.at[3].add(5.0), jnp.asarray(chain)[None])[0][0]
        assert (not np.allclose(before, after)) == reaches
