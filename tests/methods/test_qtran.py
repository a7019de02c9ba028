"""QTRAN against its definition in NumPy."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.methods.qtran import QtranModel
from tests.methods import by_hand
from tests.tiny_methods import RECURRENT, built, random_batch, two_models


def state_features(encoder, obs):
    encoded = by_hand.encoded(encoder, by_hand.entity_inputs(obs, 5), by_hand.full_view(obs))
    return by_hand.mean_over_slots(encoded, obs)


def joint_value(model, obs, hidden, actions):
    """The joint value at one timestep."""
    team = sum(
        by_hand.dense_layers(model.encode_action, np.concatenate([hidden[agent], np.eye(5)[actions[agent]]]))
        for agent in np.flatnonzero(obs.present[:3])
    )
    return by_hand.dense_layers(model.joint, np.concatenate([state_features(model.encode_joint, obs), team]))[0]


def state_value(model, obs):
    """The state value at one timestep."""
    return by_hand.dense_layers(model.state, state_features(model.encode_state, obs))[0]


def test_joint_value_and_state_value_with_an_absent_agent():
    method, spec = built("qtran", RECURRENT)
    model = two_models(method, 1)[0]
    batch = by_hand.batch_with_two_episodes_in_a_row(spec, 1)
    obs = jax.tree.map(lambda leaf: leaf[1, 1], batch.observations)
    in_numpy = jax.tree.map(np.asarray, obs)
    hidden, actions = np.random.default_rng(0).normal(size=(3, 4)), np.array([3, 0, 4])
    result = model.joint_value(obs, jnp.asarray(hidden, jnp.float32), jnp.asarray(actions))
    assert float(result) == pytest.approx(joint_value(model, in_numpy, hidden, actions), rel=1e-4)
    assert float(model.state_value(obs)) == pytest.approx(state_value(model, in_numpy), rel=1e-4)


def test_the_three_losses():
    method, spec = built("qtran", RECURRENT)
    model, target = two_models(method, 1)
    batch = by_hand.batch_with_two_episodes_in_a_row(spec, 1)
    td_errors, optimal_errors, other_errors = [], [], []
    for number, obs in enumerate(by_hand.rows(batch.observations)):
        hidden, later = (by_hand.hidden_states(net.utility, obs) for net in (model, target))
        q = by_hand.q_values(model.utility, obs)
        best, taken = by_hand.best_actions(q, obs), np.asarray(batch.actions[number])
        for time in np.flatnonzero(batch.valid[number]):
            now, then = by_hand.timesteps(obs)[time : time + 2]
            next_value = joint_value(target, then, later[time + 1], best[time + 1])
            td_target = batch.rewards[number, time] + 0.99 * (not batch.terminated[number, time]) * next_value
            value, at_best = (joint_value(model, now, hidden[time], each[time]) for each in (taken, best))
            state = state_value(model, now)
            td_errors.append(value - td_target)
            optimal_errors.append(by_hand.picked(q[time], best[time]).sum() - at_best + state)
            other_errors.append(min(by_hand.picked(q[time], taken[time]).sum() - value + state, 0))
    expected = [np.square(errors).mean() for errors in (td_errors, optimal_errors, other_errors)]
    assert expected[2] > 0
    total, metrics = jax.jit(method.loss)(model, target, batch, jax.random.key(0))
    np.testing.assert_allclose([metrics[name] for name in ("td_loss", "optimal_loss", "other_loss")], expected, rtol=1e-4)
    assert float(total) == pytest.approx(expected[0] + expected[1] + 0.1 * expected[2], rel=1e-4)


def test_only_the_td_loss_moves_the_joint_value():
    method, spec = built("qtran", RECURRENT)
    model, target = two_models(method, 2)
    batch = random_batch(spec, 2)

    def losses(model):
        metrics = method.loss(model, target, batch, jax.random.key(0))[1]
        return [metrics[part] for part in ("td_loss", "optimal_loss", "other_loss")]

    td_gradient, *others = jax.jit(jax.jacrev(losses))(model)
    for gradient in others:
        for part in (gradient.encode_joint, gradient.encode_action, gradient.joint):
            assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(part))
    for part in (td_gradient.joint, td_gradient.utility.encoder, td_gradient.utility.gru):
        assert any((np.asarray(leaf) != 0).any() for leaf in jax.tree.leaves(part))


def test_absent_agents_have_no_effect_on_the_joint_value():
    method, spec = built("qtran", RECURRENT)
    model = two_models(method, 6)[0]
    assert isinstance(model, QtranModel)
    obs = jax.tree.map(lambda leaf: leaf[0, 1], random_batch(spec, 6).observations)
    obs = replace(obs, present=obs.present.at[2].set(False), visible=obs.visible.at[2].set(False).at[:, 2].set(False))
    hidden = jnp.ones((3, 4))
    one = model.joint_value(obs, hidden, jnp.array([0, 1, 0]))
    other = model.joint_value(obs, hidden.at[2].set(9.0), jnp.array([0, 1, 4]))
    assert float(one) == float(other)
