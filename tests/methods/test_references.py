"""The methods whose code the authors did not release, against references worked out apart from ours, in plain NumPy."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins
from refil.methods import qatten, qtran, roma
from refil.methods.roma import Roles
from refil.nets import messages, updet
from refil.nets.pooling import Pooling, pooling
from tests.test_methods import TIME, built, random_episodes, two_models

KIND = "recurrent, attention"


def softmax(values):
    powers = np.exp(values - values.max())
    return powers / powers.sum()


# ROMA ------------------------------------------------------------------------------------------------------------------


def test_romas_identifiability_on_two_agents_and_an_empty_slot():
    roles = Roles(jnp.array([[1.0], [0.0], [9.0]]), jnp.array([[1.0], [4.0], [9.0]]))
    foretold = Roles(jnp.array([[0.0], [0.0], [0.0]]), jnp.array([[1.0], [2.0], [1.0]]))
    acting = jnp.array([True, True, False])
    entropy = [0.5 * np.log(2 * np.pi * np.e * 1), 0.5 * np.log(2 * np.pi * np.e * 4)]
    surprise = [0.5 * (1 + 1 - 1), 0.5 * (4 / 2 - 1 - np.log(4 / 2))]  # KL of two normals
    inner = 0.1 * np.mean(entropy) + 0.3 * np.mean(surprise)
    got = roma.identifiability(roles, foretold, acting, 0.1, 0.3)
    assert float(got) == pytest.approx(np.log1p(np.exp(inner)), rel=1e-5)


def test_romas_identifiability_is_held_below_its_bound():
    roles = Roles(jnp.array([[1e6]]), jnp.array([[1.0]]))
    foretold = Roles(jnp.zeros((1, 1)), jnp.ones((1, 1)))
    assert float(roma.identifiability(roles, foretold, jnp.array([True]), 1.0, 1.0)) == 2000.0


def test_romas_dissimilarity_on_two_agents_and_an_empty_slot():
    mean, variance, drawn = np.array([0.0, 1.0]), np.array([1.0, 4.0]), np.array([0.5, 2.0])
    unlike = np.array([[0.2, 0.6], [0.4, 0.3]])
    alike = np.array(
        [
            [-0.5 * ((drawn[j] - mean[i]) ** 2 / variance[i] + np.log(2 * np.pi * variance[i])) + 13.9 for j in range(2)]
            for i in range(2)
        ]
    )
    normed = [(values - values.min()) / (values.max() - values.min()) for values in (alike, unlike)]
    expected = (normed[1] - np.minimum(normed[0] + normed[1], 1)).mean()

    def padded(values):
        return jnp.asarray(np.append(values, 50.0)[:, None], jnp.float32)

    wide = jnp.full((3, 3), 99.0).at[:2, :2].set(unlike)
    got = roma.dissimilarity(Roles(padded(mean), padded(variance)), padded(drawn), wide, jnp.array([True, True, False]))
    assert float(got) == pytest.approx(expected, abs=1e-5)


def test_romas_roles_differ_from_draw_to_draw_unless_their_means_are_taken():
    method, spec = built("roma", KIND, 5, sample_roles=True)
    model, obs = two_models(method, 0)[0], random_episodes(spec, 0).observations
    one, other = (model.utility.unroll(obs, obs.visible[None], jax.random.key(seed)) for seed in (1, 2))
    assert not np.allclose(one, other)
    still = replace(model.utility, sampled=False)
    one, other = (still.unroll(obs, obs.visible[None], jax.random.key(seed)) for seed in (1, 2))
    np.testing.assert_array_equal(one, other)


# QTRAN -----------------------------------------------------------------------------------------------------------------


def test_qtrans_three_losses():
    method, spec = built("qtran", KIND, 5)
    model, target = two_models(method, 1)
    episodes = random_episodes(spec, 1)
    obs = episodes.observations
    hidden = model.utility.hidden(obs, obs.visible[None])[0]
    q = np.where(np.asarray(obs.acting)[..., None], np.asarray(model.utility.score(hidden)), 0.0)
    best = np.where(obs.available, q, -np.inf).argmax(axis=-1)
    then_hidden = target.utility.hidden(obs, obs.visible[None])[0]

    def joint(net, memories, actions, time):
        instant = jax.tree.map(lambda leaf: leaf[:, time], obs)
        return np.asarray(net.mixer.joint_value(instant, memories[:, time], jnp.asarray(actions)))

    td_terms, optimal_terms, other_terms = [], [], []
    for time in range(TIME):
        instant = jax.tree.map(lambda leaf, t=time: leaf[:, t], obs)
        state = np.asarray(model.mixer.state_value(instant))
        taken = np.asarray(episodes.actions[:, time])
        goals = np.asarray(episodes.rewards[:, time]) + 0.99 * ~np.asarray(episodes.terminated[:, time]) * joint(
            target, then_hidden, best[:, time + 1], time + 1
        )
        value, at_best = joint(model, hidden, taken, time), joint(model, hidden, best[:, time], time)
        sum_best = np.take_along_axis(q[:, time], best[:, time, :, None], -1)[..., 0].sum(-1)
        sum_taken = np.take_along_axis(q[:, time], taken[..., None], -1)[..., 0].sum(-1)
        valid = np.asarray(episodes.valid[:, time])
        td_terms.append(((value - goals) ** 2)[valid])
        optimal_terms.append(((sum_best - at_best + state) ** 2)[valid])
        other_terms.append((np.minimum(sum_taken - value + state, 0) ** 2)[valid])
    expected = [np.concatenate(terms).mean() for terms in (td_terms, optimal_terms, other_terms)]
    total, parts = method.loss(model, target, episodes, jax.random.key(0))
    got = [float(parts[name]) for name in ("td_loss", "optimal_loss", "other_loss")]
    np.testing.assert_allclose(got, expected, rtol=1e-4)
    assert float(total) == pytest.approx(expected[0] + expected[1] + 0.1 * expected[2], rel=1e-4)


def test_only_the_reward_moves_qtrans_joint_value():
    method, spec = built("qtran", KIND, 5)
    model, target = two_models(method, 2)
    episodes = random_episodes(spec, 2)

    def gradient(part):
        return jax.grad(lambda model: method.loss(model, target, episodes, jax.random.key(0))[1][part])(model)

    joint = ("encode_joint", "encode_action", "joint")
    for part in ("optimal_loss", "other_loss"):
        for name in joint:
            assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(getattr(gradient(part).mixer, name)))
    assert any((np.asarray(leaf) != 0).any() for leaf in jax.tree.leaves(gradient("td_loss").mixer.joint))
    assert any((np.asarray(leaf) != 0).any() for leaf in jax.tree.leaves(gradient("td_loss").utility.trunk))


# Qatten ----------------------------------------------------------------------------------------------------------------


def test_qattens_weights_leave_absent_agents_out():
    context = qatten.QattenContext(
        logits=jnp.array([[0.0, 1.0, -1e9], [2.0, -1.0, -1e9]]), weights=jnp.array([0.5, 2.0]), bias=jnp.asarray(0.25)
    )
    utilities = np.array([1.0, -2.0, 100.0])
    expected = 0.25
    for weight, logits in ((0.5, [0.0, 1.0]), (2.0, [2.0, -1.0])):
        expected += weight * softmax(np.array(logits)) @ utilities[:2]
    mixer = two_models(built("qatten", KIND, 5)[0], 0)[0].mixer
    got = mixer.value(context, jnp.asarray(utilities, jnp.float32)[None])
    assert float(got) == pytest.approx(expected, rel=1e-5)


def test_qattens_context_in_numpy():
    method, spec = built("qatten", KIND, 5)
    mixer = two_models(method, 3)[0].mixer
    obs = jax.tree.map(lambda leaf: leaf[0, 1], random_episodes(spec, 3).observations)
    context = mixer.context(obs)
    row = np.concatenate([np.asarray(obs.entities[0]), np.eye(spec.actions)[int(obs.last_action[0])]])
    keys = (row @ np.asarray(mixer.key.weight) + np.asarray(mixer.key.bias)).reshape(2, -1)
    from refil.nets.mixers import over_agents
    from refil.types import rows

    query = np.asarray(over_agents(mixer.query.read(rows(obs, spec.actions)), obs)).reshape(2, -1)
    expected = (keys * query).sum(-1) / np.sqrt(keys.shape[1])
    np.testing.assert_allclose(context.logits[:, 0], expected, rtol=1e-4, atol=1e-6)
    assert (np.asarray(context.weights) >= 0).all()


# EMP -------------------------------------------------------------------------------------------------------------------


def emp_by_hand(net: messages.MessageEncoder, inputs, view, rounds):
    """Agent by agent, head by head."""

    def dense(layer, row):
        return row @ np.asarray(layer.weight) + np.asarray(layer.bias)

    def listen(layer, own, others, heard):
        if not heard.any():
            return np.zeros_like(own)
        size = len(own)
        width = size // layer.heads
        query, weights, gained = own @ np.asarray(layer.query), np.asarray(layer.key_value), []
        for head in range(layer.heads):
            part = slice(head * width, (head + 1) * width)
            keys = others[heard] @ weights[:, :size][:, part]
            values = others[heard] @ weights[:, size:][:, part]
            gained.append(softmax(keys @ query[part] / np.sqrt(width)) @ values)
        return np.concatenate(gained)

    agents = view.shape[0]
    own = np.maximum([dense(net.embed_agents, row) for row in inputs[:agents]], 0)
    others = np.maximum([dense(net.embed_others, row) for row in inputs[agents:]], 0)
    seen = [listen(net.look, own[a], others, view[a, agents:]) for a in range(agents)]
    own = np.maximum([dense(net.join, np.concatenate([own[a], seen[a]])) for a in range(agents)], 0)
    for _ in range(rounds):
        heard = [listen(net.talk, own[a], own, view[a, :agents]) for a in range(agents)]
        own = np.maximum([dense(net.update, np.concatenate([own[a], heard[a]])) for a in range(agents)], 0)
    return own


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_messages_after_so_many_rounds(rounds):
    draw = np.random.default_rng(0)
    net = messages.message_encoder(4, 8, 2, rounds, jax.random.key(0))
    inputs = draw.normal(size=(5, 4)).astype(np.float32)
    view = np.array([[1, 1, 0, 1, 0], [1, 1, 1, 0, 0], [0, 1, 1, 0, 0]], bool)
    got = net(jnp.asarray(inputs), jnp.asarray(view)[None])[0]
    np.testing.assert_allclose(got, emp_by_hand(net, inputs, view, rounds), rtol=1e-4, atol=1e-5)


def test_messages_carry_what_friends_see_and_no_further_than_their_rounds():
    inputs = jax.random.normal(jax.random.key(1), (4, 3))
    chain = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1]], bool)  # only the last agent sees the entity
    for rounds, reaches in ((1, False), (2, True)):
        net = messages.message_encoder(3, 8, 2, rounds, jax.random.key(2))
        before = net(inputs, jnp.asarray(chain)[None])[0][0]
        after = net(inputs.at[3].add(5.0), jnp.asarray(chain)[None])[0][0]
        assert (not np.allclose(before, after)) == reaches


# UPDeT -----------------------------------------------------------------------------------------------------------------


def test_updets_actions_are_those_aimed_at_the_tokens():
    method, spec = built("qmix_updet", KIND, 5)
    utility = two_models(method, 4)[0].utility
    obs = jax.tree.map(lambda leaf: leaf[0, 0], random_episodes(spec, 4).observations)
    everyone = jnp.ones(5, bool)
    obs = replace(obs, present=everyone, visible=jnp.ones((3, 5), bool), action_for=jnp.array([-1, 4, -1, 2, 3]))
    scores = jnp.asarray(np.random.default_rng(0).normal(size=(3, 5, 2)), jnp.float32)
    q = utility.utilities(scores, obs)
    for agent in range(3):
        np.testing.assert_allclose(q[agent, :2], scores[agent, agent], rtol=1e-5)  # its own token
        for action, entity in ((2, 3), (3, 4), (4, 1)):
            assert float(q[agent, action]) == pytest.approx(float(scores[agent, entity].mean()), rel=1e-5)
    swapped = utility.utilities(scores, replace(obs, action_for=jnp.array([-1, 2, -1, 4, 3])))
    np.testing.assert_allclose(swapped[:, jnp.array([0, 1, 4, 3, 2])], q, rtol=1e-6)


def test_updets_block_in_numpy():
    block = updet.block(4, 2, jax.random.key(0))
    tokens = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    seen = np.array([True, False, True])
    columns = tokens @ np.asarray(block.query_key_value)
    query, key, value = (columns[:, 8 * part : 8 * part + 8].reshape(3, 2, 4) for part in range(3))
    gained = np.zeros((3, 8))
    for token in range(3):
        for head in range(2):
            logits = np.where(seen, key[:, head] @ query[token, head] / 2, -1e9)
            gained[token, 4 * head : 4 * head + 4] = softmax(logits) @ value[:, head]

    def norm(rows):
        return (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)

    def dense(layer, rows):
        return rows @ np.asarray(layer.weight) + np.asarray(layer.bias)

    first = norm(tokens + dense(block.merge, gained))
    fed = dense(block.feed.layers[1], np.maximum(dense(block.feed.layers[0], first), 0))
    np.testing.assert_allclose(block(jnp.asarray(tokens), jnp.asarray(seen)), norm(first + fed), rtol=1e-3, atol=1e-5)


def test_refil_with_updet_imagines_and_is_not_refil():
    names = {name: plugins.load("refil.methods", name) for name in ("refil_updet", "qmix_updet")}
    method, spec = built("refil_updet", KIND, 5)
    plain, _ = built("qmix_updet", KIND, 5)
    model, target = two_models(method, 5)
    episodes = random_episodes(spec, 5)
    _, parts = method.loss(model, target, episodes, jax.random.key(0))
    assert float(parts["td_loss"]) == pytest.approx(float(plain.loss(model, target, episodes, jax.random.key(0))[0]), rel=1e-5)
    assert float(parts["imagined_loss"]) > 0
    assert names["refil_updet"].Config().imagined_weight == 0.5


def test_updet_has_as_many_parameters_as_its_own_sizes_give():
    from refil import experiment

    model = jax.eval_shape(experiment.default("3-8sz", "qmix_updet").build().method.init, jax.random.key(0))
    # 53 inputs and a mark to 32; two blocks of 9216 + 3104 + 8352 and two norms of 64; 32 to 32; 32 to 6.
    blocks = 2 * (32 * 288 + (96 * 32 + 32) + (32 * 128 + 128 + 128 * 32 + 32) + 4 * 32)
    assert sum(leaf.size for leaf in jax.tree.leaves(model.utility)) == (53 * 32 + 32) + blocks + (32 * 32 + 32) + (32 * 6 + 6)


# Pooling ---------------------------------------------------------------------------------------------------------------


def test_pooling_counts_what_is_unseen_as_zeros_unless_it_is_exact():
    rows = jnp.array([[1.0, -2.0], [3.0, -4.0], [100.0, 100.0]])
    view = jnp.array([[[True, True, False], [False, False, False]]])
    plain = pooling(2, "mean", False, jax.random.key(0))
    identity = plain.value.__class__(jnp.eye(2), jnp.zeros(2))
    cases = {
        ("mean", False): [4 / 3, -2.0],
        ("mean", True): [2.0, -3.0],
        ("max", False): [3.0, 0.0],
        ("max", True): [3.0, -2.0],
    }
    for (kind, exact), expected in cases.items():
        got = Pooling(identity, identity, kind, exact).read(rows).through(view)[0]
        np.testing.assert_allclose(got, [expected, [0.0, 0.0]], rtol=1e-6)


def test_qtran_counts_absent_agents_as_nothing():
    method, spec = built("qtran", KIND, 5)
    mixer = two_models(method, 6)[0].mixer
    assert isinstance(mixer, qtran.Qtran)
    obs = jax.tree.map(lambda leaf: leaf[0, 1], random_episodes(spec, 6).observations)
    obs = replace(obs, present=obs.present.at[2].set(False), visible=obs.visible.at[2].set(False).at[:, 2].set(False))
    hidden = jnp.ones((3, 4))
    one = mixer.joint_value(obs, hidden, jnp.array([0, 1, 0]))
    other = mixer.joint_value(obs, hidden.at[2].set(9.0), jnp.array([0, 1, 4]))
    assert float(one) == float(other)
