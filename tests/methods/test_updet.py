"""UPDeT and REFIL with UPDeT against their definition in NumPy."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins
from refil.nn import transformer
from refil.nn.utilities import unroll
from refil.training import config
from tests.methods import by_hand
from tests.tiny_methods import RECURRENT, TIME, built, random_batch, two_models


def test_an_action_aimed_at_an_entity_is_scored_by_the_token_of_that_entity():
    method, spec = built("qmix_updet", RECURRENT)
    utility = two_models(method, 4)[0].utility
    obs = jax.tree.map(lambda leaf: leaf[0, 0], random_batch(spec, 4).observations)
    everyone = jnp.ones(5, bool)
    obs = replace(obs, present=everyone, visible=jnp.ones((3, 5), bool), targeting_action=jnp.array([-1, 4, -1, 2, 3]))
    scores = jnp.asarray(np.random.default_rng(0).normal(size=(1, 3, 5, 2)), jnp.float32)
    q = utility.q_values(scores, obs)[0]
    for agent in range(3):
        np.testing.assert_allclose(q[agent, :2], scores[0, agent, agent], rtol=1e-5)  # its own token
        for action, entity in ((2, 3), (3, 4), (4, 1)):
            assert float(q[agent, action]) == pytest.approx(float(scores[0, agent, entity].mean()), rel=1e-5)
    swapped = utility.q_values(scores, replace(obs, targeting_action=jnp.array([-1, 2, -1, 4, 3])))[0]
    np.testing.assert_allclose(swapped[:, jnp.array([0, 1, 4, 3, 2])], q, rtol=1e-6)


def block_output(block, tokens, visible):
    """One block, token by token, head by head; norms as in a new model."""
    count, size = tokens.shape
    columns = (tokens @ np.asarray(block.query_key_value)).reshape(count, 3, block.heads, size)
    query, key, value = (columns[:, part] for part in range(3))
    attended = np.zeros((count, block.heads, size))
    for token, head in np.ndindex(count, block.heads):
        weights = by_hand.softmax(key[visible, head] @ query[token, head] / np.sqrt(size))
        attended[token, head] = weights @ value[visible, head]
    first = by_hand.normed(tokens + by_hand.dense(block.merge, attended.reshape(count, -1)))
    return by_hand.normed(first + by_hand.dense_layers(block.feed, first))


def test_one_transformer_block():
    block = transformer.updet_utility(built("qmix_updet", RECURRENT)[1], 4, 2, 1, False, jax.random.key(0)).blocks[0]
    tokens = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    visible = np.array([True, False, True])
    result = block(jnp.asarray(tokens), jnp.asarray(visible))
    np.testing.assert_allclose(result, block_output(block, tokens, visible), rtol=1e-3, atol=1e-5)


def expected_q(utility, obs, view):
    """The Q-values of one row: each agent by itself, with its own mark on its own token."""
    memory, q = np.zeros((3, 8)), np.zeros((TIME + 1, 3, 5))
    for time, now in enumerate(by_hand.timesteps(obs)):
        for agent in np.flatnonzero(now.present[:3]):
            mark = np.eye(5)[agent][:, None]
            tokens = by_hand.dense(utility.embed, np.concatenate([by_hand.entity_inputs(now, 5), mark], axis=1))
            tokens = np.concatenate([tokens, [np.zeros(8) if now.is_first else memory[agent]]])
            for block in utility.blocks:
                tokens = block_output(block, tokens, np.append(view[time, agent], True))
            tokens = by_hand.dense(utility.output, tokens)
            memory[agent], scores = tokens[-1], by_hand.dense(utility.head, tokens[:-1])
            q[time, agent, :2] = scores[agent]
            for entity in np.flatnonzero(now.visible[agent] & (now.targeting_action >= 0)):
                q[time, agent, now.targeting_action[entity]] = scores[entity].mean()
    return q


def test_each_view_has_its_own_memory():
    method, spec = built("refil_updet", RECURRENT)
    utility, batch = two_models(method, 10)[0].utility, by_hand.batch_with_two_episodes_in_a_row(spec, 10)
    visible = batch.observations.visible
    some = np.random.default_rng(10).random(visible.shape) < 0.5
    views = np.stack([visible, visible & some, visible & ~some])
    result = jax.jit(lambda views: unroll(utility, batch, views))(jnp.asarray(views))
    for number, row in enumerate(by_hand.rows(batch.observations)):
        for view in range(3):
            expected = expected_q(utility, row, views[view, number])
            np.testing.assert_allclose(result[view, number], expected, rtol=1e-3, atol=1e-5)
    assert not np.allclose(result[1], result[2], atol=1e-3)


def test_refil_with_updet_adds_an_imagined_loss_to_qmix_with_updet():
    method, spec = built("refil_updet", RECURRENT)
    plain, _ = built("qmix_updet", RECURRENT)
    inputs = *two_models(method, 5), random_batch(spec, 5), jax.random.key(0)
    total, metrics = jax.jit(method.loss)(*inputs)
    assert float(metrics["td_loss"]) == pytest.approx(float(jax.jit(plain.loss)(*inputs)[0]), rel=1e-5)
    assert float(metrics["imagined_loss"]) > 0
    assert plugins.load("refil.methods", "refil_updet").Config().imagined_weight == 0.5
    assert float(total) == pytest.approx(0.5 * float(metrics["td_loss"] + metrics["imagined_loss"]), rel=1e-5)


def test_updet_has_the_number_of_parameters_that_its_sizes_imply():
    model = jax.eval_shape(config.default("3-8sz", "qmix_updet").build().method.init, jax.random.key(0))
    # 53 inputs and a mark to 32; two blocks of 9216 + 3104 + 8352 and two norms of 64; 32 to 32; 32 to 6.
    blocks = 2 * (32 * 288 + (96 * 32 + 32) + (32 * 128 + 128 + 128 * 32 + 32) + 4 * 32)
    assert sum(leaf.size for leaf in jax.tree.leaves(model.utility)) == (53 * 32 + 32) + blocks + (32 * 32 + 32) + (32 * 6 + 6)
