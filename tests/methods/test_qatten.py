"""Qatten against its definition in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.learning import losses
from refil.methods.qatten import QattenContext
from tests.methods import by_hand
from tests.tiny_methods import RECURRENT, built, two_models


@pytest.fixture(scope="module")
def mixer():
    return two_models(built("qatten", RECURRENT)[0], 0)[0].mixer


def test_absent_agents_have_no_weight(mixer):
    context = QattenContext(
        logits=jnp.array([[0.0, 1.0, -1e9], [2.0, -1.0, -1e9]]), weights=jnp.array([0.5, 2.0]), bias=jnp.asarray(0.25)
    )
    utilities = np.array([1.0, -2.0, 100.0])
    expected = 0.25
    for weight, logits in ((0.5, [0.0, 1.0]), (2.0, [2.0, -1.0])):
        expected += weight * by_hand.softmax(np.array(logits)) @ utilities[:2]
    result = mixer.value((), context, jnp.asarray(utilities, jnp.float32)[None])
    assert float(result) == pytest.approx(expected, rel=1e-5)


def test_several_factors_of_an_agent_share_its_weight(mixer):
    context = QattenContext(logits=jnp.zeros((1, 2)), weights=jnp.array([4.0]), bias=jnp.asarray(1.0))
    assert float(mixer.value((), context, jnp.array([[1.0, 2.0], [3.0, 6.0]]))) == pytest.approx(1 + 4 * (2 + 4) / 2)


def test_queries_weights_and_bias_with_an_absent_agent(mixer):
    spec = built("qatten", RECURRENT)[1]
    batch = by_hand.batch_with_two_episodes_in_a_row(spec, 3)
    obs = jax.tree.map(lambda leaf: leaf[1, 1], batch.observations)
    now = jax.tree.map(np.asarray, obs)
    inputs, there = by_hand.entity_inputs(now, 5), np.flatnonzero(now.present[:3])
    query, weights, bias = (
        by_hand.mean_over_slots(by_hand.dense(net.output, by_hand.encoded(net, inputs, by_hand.full_view(now))), now)
        for net in (mixer.query, mixer.weights, mixer.bias)
    )
    keys = by_hand.dense(mixer.key, inputs[there]).reshape(len(there), 2, 4)
    logits = np.einsum("ahw,hw->ha", keys, query.reshape(2, 4)) / 2
    context = mixer.context(obs, obs.full_view[None])
    np.testing.assert_allclose(context[1].logits[:, there], logits, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(context[1].weights, np.abs(weights), rtol=1e-4, atol=1e-6)
    assert float(context[1].bias) == pytest.approx(bias.mean(), rel=1e-4)

    utilities = np.array([1.0, 100.0, -2.0])  # the second agent is absent
    attention = np.stack([by_hand.softmax(head) for head in logits])
    expected = np.abs(weights) @ attention @ utilities[there] + bias.mean()
    result = losses.mix(mixer, context, jnp.asarray(utilities, jnp.float32)[None], losses.ALL_FACTORS)
    assert float(result) == pytest.approx(expected, rel=1e-4)
