"""The methods whose code the authors did not release, against references worked out apart from ours, in plain NumPy."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins
from refil.methods import qatten, qtran, roma
from refil.methods.roma import Roles
from refil.nn import messages, transformer
from refil.nn.pooling import Pooling, pooling
from refil.types import Episode
from tests.test_methods import EPISODES, TIME, built, jitted_q, random_episodes, two_models

KIND = "recurrent, attention"


# What several of them are made of ---------------------------------------------------------------------------------------


def softmax(values):
    powers = np.exp(values - values.max())
    return powers / powers.sum()


def dense(layer, rows):
    return rows @ np.asarray(layer.weight) + np.asarray(layer.bias)


def dense_layers(net, rows):
    for layer in net.layers[:-1]:
        rows = np.maximum(dense(layer, rows), 0)
    return dense(net.layers[-1], rows)


def normed(rows):
    return (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)


def read_by_hand(obs, actions):
    """Features and last action of every entity at one instant."""
    done = np.zeros((len(obs.entities), actions))
    for agent, action in enumerate(obs.last_action):
        if action >= 0:
            done[agent, action] = 1
    return np.concatenate([obs.entities, done], axis=1)


def gathered_by_hand(net, rows, view):
    """Embedding and attention, agent by agent, head by head; one that sees nothing has the output's bias alone."""
    rows = np.maximum(dense(net.embed, rows), 0)
    size = rows.shape[1]
    width = size // net.gather.heads
    query, key, value = np.split(rows @ np.asarray(net.gather.query_key_value), 3, axis=1)
    gained = np.zeros((len(view), size))
    for agent, seen in enumerate(view):
        for start in range(0, size if seen.any() else 0, width):
            part = slice(start, start + width)
            gained[agent, part] = softmax(key[seen, part] @ query[agent, part] / np.sqrt(width)) @ value[seen, part]
    return dense(net.gather.output, gained)


def over_slots_by_hand(rows, obs):
    """The mean over all slots for agents, the empty ones being zero."""
    return np.where(obs.present[: len(rows), None], rows, 0).sum(axis=0) / len(rows)


def everything_by_hand(obs):
    return obs.present[: len(obs.visible), None] & obs.present


def memories_by_hand(trunk, obs):
    """A GRU in PyTorch's form over the instants of one row of time."""

    def gate(total):
        return 1 / (1 + np.exp(-total))

    memory, memories = None, []
    for now in instants(obs):
        seen = np.maximum(dense(trunk.digest, gathered_by_hand(trunk.encode, read_by_hand(now, 5), now.visible)), 0)
        if now.last_action[0] < 0:
            memory = np.zeros_like(seen)
        reset, update, new = np.split(dense(trunk.remember.input_proj, seen), 3, axis=1)
        old_reset, old_update, old_new = np.split(dense(trunk.remember.hidden_proj, memory), 3, axis=1)
        new, update = np.tanh(new + gate(reset + old_reset) * old_new), gate(update + old_update)
        memory = (1 - update) * new + update * memory
        memories.append(memory)
    return np.stack(memories)


def instants(obs):
    """One row of time, instant by instant."""
    return [jax.tree.map(lambda leaf, t=t: np.asarray(leaf[t]), obs) for t in range(TIME + 1)]


def rows_of_time(obs):
    return [jax.tree.map(lambda leaf, n=n: np.asarray(leaf[n]), obs) for n in range(EPISODES)]


def two_on_the_second_row(spec, seed) -> Episode:
    """Random episodes where all agents are there but one; on its row, another episode begins after two instants."""
    episodes = random_episodes(spec, seed)
    obs = episodes.observations
    present = obs.present.at[:, :, :3].set(True).at[1, :, 1].set(False)
    both = present[:, :, :3, None] & present[:, :, None, :]
    obs = replace(obs, present=present, visible=obs.visible & both, last_action=obs.last_action.at[1, 2].set(-1))
    return replace(episodes, observations=obs, valid=episodes.valid.at[1].set(jnp.array([True, False, True, True])))


def utilities_by_hand(utility, obs):
    """Of one row of time."""
    return np.where(np.asarray(obs.present)[:, :3, None], dense(utility.score, memories_by_hand(utility.trunk, obs)), 0)


def picked(q, actions):
    return np.take_along_axis(q, np.asarray(actions)[..., None], axis=-1)[..., 0]


def best_of(q, obs):
    return np.where(obs.available, q, -np.inf).argmax(axis=-1)


# IQL -------------------------------------------------------------------------------------------------------------------


def test_iql_is_the_mean_over_agents_that_are_there():
    method, spec = built("iql_attention", KIND, 5)
    model, target = two_models(method, 7)
    episodes = two_on_the_second_row(spec, 7)
    errors = []
    for number, obs in enumerate(rows_of_time(episodes.observations)):
        q, later = (utilities_by_hand(net.utility, obs) for net in (model, target))
        taken, following = picked(q[:-1], episodes.actions[number]), picked(later, best_of(q, obs))[1:]
        for time in np.flatnonzero(episodes.valid[number]):
            goes_on = not episodes.terminated[number, time]
            for agent in np.flatnonzero(obs.present[time, :3]):
                goal = episodes.rewards[number, time] + 0.99 * goes_on * following[time, agent]
                errors.append(taken[time, agent] - goal)
    loss = jax.jit(method.loss)(model, target, episodes, jax.random.key(0))[0]
    assert float(loss) == pytest.approx(np.square(errors).mean(), rel=1e-4)


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


def narrow_by_hand(layer, rows):
    hidden = normed(dense(layer.enter, rows))
    return dense(layer.leave, np.where(hidden > 0, hidden, 0.01 * hidden))


def roles_by_hand(layer, rows):
    mean, logarithm = np.split(narrow_by_hand(layer, rows), 2, axis=-1)
    return mean, np.maximum(np.exp(logarithm), 0.002)


def test_romas_utilities_are_made_by_the_mean_role_from_the_memory():
    method, spec = built("roma", KIND, 5)
    model, obs = two_models(method, 8)[0], two_on_the_second_row(spec, 8).observations
    got, utility = jitted_q(method)(model, obs), model.utility
    for number, row in enumerate(rows_of_time(obs)):
        for now, memory, q in zip(instants(row), memories_by_hand(utility.trunk, row), got[number], strict=True):
            mean, _ = roles_by_hand(utility.role, gathered_by_hand(utility.look, read_by_hand(now, 5), now.visible))
            for agent in range(3):
                made = narrow_by_hand(utility.weights, mean[agent]) * now.present[agent]
                expected = memory[agent] @ made[5:].reshape(4, 5) + made[:5]
                np.testing.assert_allclose(q[agent], expected, rtol=1e-3, atol=1e-5)


def test_romas_losses_know_only_the_memory_before_and_draw_roles_apart():
    method, spec = built("roma", KIND, 5, entropy_weight=0.1, surprise_weight=0.5, difference_weight=2.0)
    model, target = two_models(method, 9)
    episodes = two_on_the_second_row(spec, 9)
    # Fresh roles are so much alike that rounding would show.
    utility = replace(model.utility, look=jax.tree.map(lambda leaf: 4 * leaf, model.utility.look))
    model, clear, differing = replace(model, utility=utility), [], []
    for number, row in enumerate(rows_of_time(episodes.observations)):
        memories = memories_by_hand(utility.trunk, row)
        for time in np.flatnonzero(episodes.valid[number]):
            now = instants(row)[time]
            there = now.present[:3]
            before = np.zeros((3, 4)) if now.last_action[0] < 0 else memories[time - 1]
            seen = gathered_by_hand(utility.look, read_by_hand(now, 5), now.visible)[there]
            mean, variance = roles_by_hand(utility.role, seen)
            past_mean, past_variance = roles_by_hand(utility.foretell, np.concatenate([before[there], seen], axis=1))
            entropy = 0.5 * np.log(2 * np.pi * np.e * variance).sum(axis=1)
            spread = (variance + (mean - past_mean) ** 2) / past_variance
            surprise = 0.5 * (spread - 1 - np.log(variance / past_variance)).sum(axis=1)
            clear.append(np.log1p(np.exp((0.1 * entropy + 0.5 * surprise).mean())))

            alike, unlike = np.zeros((2, there.sum(), there.sum()))
            for one in range(there.sum()):
                for other in range(there.sum()):
                    away = (mean[other] - mean[one]) ** 2 / variance[one] + np.log(2 * np.pi * variance[one])
                    alike[one, other] = np.maximum(-0.5 * away + 13.9, -13.9).mean()
                    both = np.concatenate([mean[one], mean[other]])
                    unlike[one, other] = abs(narrow_by_hand(utility.unlike, both)[0])
            alike, unlike = ((each - each.min()) / (np.ptp(each) + 1e-12) for each in (alike, unlike))
            differing.append((unlike - np.minimum(alike + unlike, 1)).mean())
    total, parts = jax.jit(method.loss)(model, target, episodes, jax.random.key(0))
    assert float(parts["identifiability_loss"]) == pytest.approx(np.mean(clear), rel=1e-4)
    assert float(parts["dissimilarity_loss"]) == pytest.approx(np.mean(differing), rel=1e-4)
    expected = float(parts["td_loss"]) + np.mean(clear) + 2.0 * np.mean(differing)
    assert float(total) == pytest.approx(expected, rel=1e-4)


def test_romas_roles_differ_from_draw_to_draw_unless_their_means_are_taken():
    method, spec = built("roma", KIND, 5, sample_roles=True)
    model, obs = two_models(method, 0)[0], random_episodes(spec, 0).observations
    one, other = (model.utility.unroll(obs, obs.visible[None], jax.random.key(seed))[0] for seed in (1, 2))
    assert not np.allclose(one, other)
    still = replace(model.utility, sampled=False)
    one, other = (still.unroll(obs, obs.visible[None], jax.random.key(seed))[0] for seed in (1, 2))
    np.testing.assert_array_equal(one, other)


# QTRAN -----------------------------------------------------------------------------------------------------------------


def joint_value_by_hand(mixer, obs, hidden, actions):
    """At one instant."""
    state = over_slots_by_hand(gathered_by_hand(mixer.encode_joint, read_by_hand(obs, 5), everything_by_hand(obs)), obs)
    acted = sum(
        dense_layers(mixer.encode_action, np.concatenate([hidden[agent], np.eye(5)[actions[agent]]]))
        for agent in np.flatnonzero(obs.present[:3])
    )
    return dense_layers(mixer.joint, np.concatenate([state, acted]))[0]


def state_value_by_hand(mixer, obs):
    """At one instant."""
    gathered = gathered_by_hand(mixer.encode_state, read_by_hand(obs, 5), everything_by_hand(obs))
    return dense_layers(mixer.state, over_slots_by_hand(gathered, obs))[0]


def test_qtrans_joint_value_and_state_value_with_an_empty_slot():
    method, spec = built("qtran", KIND, 5)
    mixer = two_models(method, 1)[0].mixer
    obs = jax.tree.map(lambda leaf: leaf[1, 1], two_on_the_second_row(spec, 1).observations)
    by_hand = jax.tree.map(np.asarray, obs)
    hidden, actions = np.random.default_rng(0).normal(size=(3, 4)), np.array([3, 0, 4])
    got = mixer.joint_value(obs, jnp.asarray(hidden, jnp.float32), jnp.asarray(actions))
    assert float(got) == pytest.approx(joint_value_by_hand(mixer, by_hand, hidden, actions), rel=1e-4)
    assert float(mixer.state_value(obs)) == pytest.approx(state_value_by_hand(mixer, by_hand), rel=1e-4)


def test_qtrans_three_losses():
    method, spec = built("qtran", KIND, 5)
    model, target = two_models(method, 1)
    episodes = two_on_the_second_row(spec, 1)
    td_errors, optimal_errors, other_errors = [], [], []
    for number, obs in enumerate(rows_of_time(episodes.observations)):
        hidden, later = (memories_by_hand(net.utility.trunk, obs) for net in (model, target))
        q = utilities_by_hand(model.utility, obs)
        best, taken = best_of(q, obs), np.asarray(episodes.actions[number])
        for time in np.flatnonzero(episodes.valid[number]):
            now, then = instants(obs)[time : time + 2]
            following = joint_value_by_hand(target.mixer, then, later[time + 1], best[time + 1])
            goal = episodes.rewards[number, time] + 0.99 * (not episodes.terminated[number, time]) * following
            value, at_best = (joint_value_by_hand(model.mixer, now, hidden[time], each[time]) for each in (taken, best))
            state = state_value_by_hand(model.mixer, now)
            td_errors.append(value - goal)
            optimal_errors.append(picked(q[time], best[time]).sum() - at_best + state)
            other_errors.append(min(picked(q[time], taken[time]).sum() - value + state, 0))
    expected = [np.square(errors).mean() for errors in (td_errors, optimal_errors, other_errors)]
    assert expected[2] > 0
    total, parts = jax.jit(method.loss)(model, target, episodes, jax.random.key(0))
    got = [float(parts[name]) for name in ("td_loss", "optimal_loss", "other_loss")]
    np.testing.assert_allclose(got, expected, rtol=1e-4)
    assert float(total) == pytest.approx(expected[0] + expected[1] + 0.1 * expected[2], rel=1e-4)


def test_only_the_reward_moves_qtrans_joint_value():
    method, spec = built("qtran", KIND, 5)
    model, target = two_models(method, 2)
    episodes = random_episodes(spec, 2)
    parts = ("td_loss", "optimal_loss", "other_loss")

    def losses(model):
        return [method.loss(model, target, episodes, jax.random.key(0))[1][part] for part in parts]

    reward, *others = jax.jit(jax.jacrev(losses))(model)
    for gradient in others:
        for name in ("encode_joint", "encode_action", "joint"):
            assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(getattr(gradient.mixer, name)))
    assert any((np.asarray(leaf) != 0).any() for leaf in jax.tree.leaves(reward.mixer.joint))
    assert any((np.asarray(leaf) != 0).any() for leaf in jax.tree.leaves(reward.utility.trunk))


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


def test_qattens_query_weights_and_constant_with_an_empty_slot():
    method, spec = built("qatten", KIND, 5)
    mixer = two_models(method, 3)[0].mixer
    obs = jax.tree.map(lambda leaf: leaf[1, 1], two_on_the_second_row(spec, 3).observations)
    now = jax.tree.map(np.asarray, obs)
    inputs, there = read_by_hand(now, 5), np.flatnonzero(now.present[:3])
    query, weights, constant = (
        over_slots_by_hand(dense(net.output, gathered_by_hand(net, inputs, everything_by_hand(now))), now)
        for net in (mixer.query, mixer.weights, mixer.bias)
    )
    keys = dense(mixer.key, inputs[there]).reshape(len(there), 2, 4)
    logits = np.einsum("ahw,hw->ha", keys, query.reshape(2, 4)) / 2
    context = mixer.read(obs, obs.full_view[None])
    np.testing.assert_allclose(context.logits[:, there], logits, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(context.weights, np.abs(weights), rtol=1e-4, atol=1e-6)
    assert float(context.bias) == pytest.approx(constant.mean(), rel=1e-4)

    utilities = np.array([1.0, 100.0, -2.0])  # the second slot is empty
    shares = np.stack([softmax(head) for head in logits])
    expected = np.abs(weights) @ shares @ utilities[there] + constant.mean()
    (got,) = mixer.values(context, jnp.asarray(utilities, jnp.float32)[None], [slice(None)])
    assert float(got) == pytest.approx(expected, rel=1e-4)


# EMP -------------------------------------------------------------------------------------------------------------------


def emp_by_hand(net: messages.MessageEncoder, inputs, view, rounds):
    """Agent by agent, head by head."""

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
    seen = [listen(net.entity_attention, own[a], others, view[a, agents:]) for a in range(agents)]
    own = np.maximum([dense(net.entity_merge, np.concatenate([own[a], seen[a]])) for a in range(agents)], 0)
    for _ in range(rounds):
        heard = [listen(net.message_attention, own[a], own, view[a, :agents]) for a in range(agents)]
        own = np.maximum([dense(net.message_merge, np.concatenate([own[a], heard[a]])) for a in range(agents)], 0)
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
    obs = replace(obs, present=everyone, visible=jnp.ones((3, 5), bool), targeting_action=jnp.array([-1, 4, -1, 2, 3]))
    scores = jnp.asarray(np.random.default_rng(0).normal(size=(3, 5, 2)), jnp.float32)
    q = utility.utilities(scores, obs)
    for agent in range(3):
        np.testing.assert_allclose(q[agent, :2], scores[agent, agent], rtol=1e-5)  # its own token
        for action, entity in ((2, 3), (3, 4), (4, 1)):
            assert float(q[agent, action]) == pytest.approx(float(scores[agent, entity].mean()), rel=1e-5)
    swapped = utility.utilities(scores, replace(obs, targeting_action=jnp.array([-1, 2, -1, 4, 3])))
    np.testing.assert_allclose(swapped[:, jnp.array([0, 1, 4, 3, 2])], q, rtol=1e-6)


def block_by_hand(block, tokens, seen):
    """Token by token, head by head; norms are as they begin."""
    count, size = tokens.shape
    columns = (tokens @ np.asarray(block.query_key_value)).reshape(count, 3, block.heads, size)
    query, key, value = (columns[:, part] for part in range(3))
    gained = np.zeros((count, block.heads, size))
    for token in range(count):
        for head in range(block.heads):
            heard = softmax(key[seen, head] @ query[token, head] / np.sqrt(size))
            gained[token, head] = heard @ value[seen, head]
    first = normed(tokens + dense(block.merge, gained.reshape(count, -1)))
    return normed(first + dense_layers(block.feed, first))


def test_updets_block_in_numpy():
    block = transformer.block(4, 2, jax.random.key(0))
    tokens = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    seen = np.array([True, False, True])
    got = block(jnp.asarray(tokens), jnp.asarray(seen))
    np.testing.assert_allclose(got, block_by_hand(block, tokens, seen), rtol=1e-3, atol=1e-5)


def updet_by_hand(utility, obs, view):
    """Utilities of one row of time: each agent by itself, with its own mark on its own token."""
    memory, q = np.zeros((3, 8)), np.zeros((TIME + 1, 3, 5))
    for time, now in enumerate(instants(obs)):
        for agent in np.flatnonzero(now.present[:3]):
            mark = np.eye(5)[agent][:, None]
            tokens = dense(utility.embed, np.concatenate([read_by_hand(now, 5), mark], axis=1))
            tokens = np.concatenate([tokens, [memory[agent] if now.last_action[0] >= 0 else np.zeros(8)]])
            for block in utility.blocks:
                tokens = block_by_hand(block, tokens, np.append(view[time, agent], True))
            tokens = dense(utility.output, tokens)
            memory[agent], scores = tokens[-1], dense(utility.score, tokens[:-1])
            q[time, agent, :2] = scores[agent]
            for entity in np.flatnonzero(now.visible[agent] & (now.targeting_action >= 0)):
                q[time, agent, now.targeting_action[entity]] = scores[entity].mean()
    return q


def test_updet_through_each_view_with_a_memory_of_its_own():
    method, spec = built("refil_updet", KIND, 5)
    utility, obs = two_models(method, 10)[0].utility, two_on_the_second_row(spec, 10).observations
    some = np.random.default_rng(10).random(obs.visible.shape) < 0.5
    views = np.stack([obs.visible, obs.visible & some, obs.visible & ~some])
    got = jax.jit(lambda views: utility.unroll(obs, views)[0])(jnp.asarray(views))
    for number, row in enumerate(rows_of_time(obs)):
        for view in range(3):
            expected = updet_by_hand(utility, row, views[view, number])
            np.testing.assert_allclose(got[view, number], expected, rtol=1e-3, atol=1e-5)
    assert not np.allclose(got[1], got[2], atol=1e-3)


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
    from refil.training import config

    model = jax.eval_shape(config.default("3-8sz", "qmix_updet").build().method.init, jax.random.key(0))
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
        got = Pooling(identity, identity, kind, exact).project(rows).attend(view)[0]
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
