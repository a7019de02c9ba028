"""Entity message passing, with numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn.layers import Linear, linear
from refil.nn.messages import CrossAttention, MessageEncoder, message_encoder

# Without queries all logits are 0, so attention is the mean of the values in view; values equal the inputs.
MEAN = CrossAttention(query=jnp.zeros((2, 2)), key_value=jnp.concatenate([jnp.eye(2), jnp.eye(2)], axis=1), heads=1)
IDENTITY = Linear(jnp.eye(2), jnp.zeros(2))
ADD = Linear(jnp.concatenate([jnp.eye(2), jnp.eye(2)]), jnp.zeros(2))  # adds the two halves of its input


def adding_encoder(rounds: int) -> MessageEncoder:
    """Each agent adds the mean of the entities in view, then in each round the mean of the agents in view."""
    return MessageEncoder(IDENTITY, IDENTITY, MEAN, ADD, MEAN, ADD, rounds)


def test_attention_weights_follow_the_logits_of_the_others_in_view():
    layer = CrossAttention(query=jnp.eye(2), key_value=jnp.concatenate([jnp.eye(2), 10 * jnp.eye(2)], axis=1), heads=2)
    agents = jnp.array([[np.log(3.0), 0.0], [1.0, 1.0]])
    others = jnp.array([[1.0, 2.0], [0.0, 4.0], [9.0, 9.0]])
    views = jnp.array([[True, True, False], [False, False, False]])
    # Each head has width 1. Head 1 of agent 0: logits log 3 and 0, weights 3/4 and 1/4, values 10 and 0.
    # Head 2: equal logits, values 20 and 40. Agent 1 has nothing in view.
    np.testing.assert_allclose(layer(agents, others, views), [[7.5, 30.0], [0.0, 0.0]], rtol=1e-6)


def test_attention_to_an_empty_set_is_zero():
    agents = jnp.ones((3, 2, 2))
    np.testing.assert_array_equal(MEAN(agents, jnp.zeros((3, 0, 2)), jnp.zeros((3, 2, 0), bool)), jnp.zeros((3, 2, 2)))


# Three agents in a chain and two other entities: agent 0 views agent 1, agent 1 views agent 2, agent 2 views both others.
INPUTS = jnp.array([[1.0, 0.0], [2.0, 0.0], [3.0, -1.0], [0.0, 4.0], [0.0, 8.0]])
CHAIN = jnp.array([[0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 1]], bool)


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        (0, [[1, 0], [2, 0], [3, 6]]),  # the embedding's ReLU removes -1; agent 2 adds the mean of (0, 4) and (0, 8)
        (1, [[3, 0], [5, 6], [3, 6]]),
        (2, [[8, 6], [8, 12], [3, 6]]),
        (3, [[16, 18], [11, 18], [3, 6]]),
    ],
)
def test_each_round_passes_messages_one_hop_further(rounds, expected):
    np.testing.assert_allclose(adding_encoder(rounds)(INPUTS, CHAIN[None])[0], expected, rtol=1e-6)


def test_every_view_has_its_own_messages():
    views = jnp.stack([CHAIN, CHAIN.at[1].set(False), jnp.zeros_like(CHAIN)])
    expected = [[[3, 0], [5, 6], [3, 6]], [[3, 0], [2, 0], [3, 6]], [[1, 0], [2, 0], [3, 0]]]
    np.testing.assert_allclose(adding_encoder(1)(INPUTS, views), expected, rtol=1e-6)


def test_a_following_layer_is_applied_to_the_encoding():
    encoder, following = message_encoder(2, 8, 2, 3, jax.random.key(0)), linear(8, 3, jax.random.key(1))
    inputs = jnp.stack([INPUTS, 2 * INPUTS])
    views = jnp.broadcast_to(CHAIN, (1, 2, 3, 5))
    np.testing.assert_array_equal(encoder(inputs, views, following), following(encoder(inputs, views)))
