"""ROMA against its definition in NumPy."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.methods import roma
from refil.methods.roma import Roles
from refil.nn.utilities import unroll
from tests.methods import by_hand
from tests.tiny_methods import RECURRENT, built, q_values, random_batch, two_models


def test_identifiability_of_two_agents_and_an_absent_one():
    roles = Roles(jnp.array([[1.0], [0.0], [9.0]]), jnp.array([[1.0], [4.0], [9.0]]))
    prior = Roles(jnp.array([[0.0], [0.0], [0.0]]), jnp.array([[1.0], [2.0], [1.0]]))
    agent_present = jnp.array([True, True, False])
    entropy = [0.5 * np.log(2 * np.pi * np.e * 1), 0.5 * np.log(2 * np.pi * np.e * 4)]
    surprise = [0.5 * (1 + 1 - 1), 0.5 * (4 / 2 - 1 - np.log(4 / 2))]  # KL divergence of two normal distributions
    inner = 0.1 * np.mean(entropy) + 0.3 * np.mean(surprise)
    result = roma.identifiability(roles, prior, agent_present, 0.1, 0.3)
    assert float(result) == pytest.approx(np.log1p(np.exp(inner)), rel=1e-5)


def test_identifiability_is_clipped():
    roles = Roles(jnp.array([[1e6]]), jnp.array([[1.0]]))
    prior = Roles(jnp.zeros((1, 1)), jnp.ones((1, 1)))
    assert float(roma.identifiability(roles, prior, jnp.array([True]), 1.0, 1.0)) == 2000.0


def test_dissimilarity_of_two_agents_and_an_absent_one():
    mean, variance, sampled = np.array([0.0, 1.0]), np.array([1.0, 4.0]), np.array([0.5, 2.0])
    distance = np.array([[0.2, 0.6], [0.4, 0.3]])
    likelihood = -0.5 * ((sampled - mean[:, None]) ** 2 / variance[:, None] + np.log(2 * np.pi * variance[:, None])) + 13.9
    similarity, scaled = ((values - values.min()) / np.ptp(values) for values in (likelihood, distance))
    expected = (scaled - np.minimum(similarity + scaled, 1)).mean()

    def padded(values):
        return jnp.asarray(np.append(values, 50.0)[:, None], jnp.float32)

    wide = jnp.full((3, 3), 99.0).at[:2, :2].set(distance)
    roles, agent_present = Roles(padded(mean), padded(variance)), jnp.array([True, True, False])
    result = roma.dissimilarity(roles, padded(sampled), wide, agent_present)
    assert float(result) == pytest.approx(expected, abs=1e-5)


def bottleneck(layer, rows):
    hidden = by_hand.normed(by_hand.dense(layer.enter, rows))
    return by_hand.dense(layer.leave, np.where(hidden > 0, hidden, 0.01 * hidden))


def roles_of(layer, rows):
    mean, log_variance = np.split(bottleneck(layer, rows), 2, axis=-1)
    return mean, np.maximum(np.exp(log_variance), 0.002)


def role_inputs(utility, now):
    return by_hand.encoded(utility.role_encoder, by_hand.entity_inputs(now, 5), now.visible)


def test_q_values_come_from_the_hidden_state_by_weights_that_the_mean_role_produces():
    method, spec = built("roma", RECURRENT)
    model, batch = two_models(method, 8)[0], by_hand.batch_with_two_episodes_in_a_row(spec, 8)
    result, utility = q_values(model, batch), model.utility
    for number, row in enumerate(by_hand.rows(batch.observations)):
        states = by_hand.hidden_states(utility, row)
        for now, hidden, q in zip(by_hand.timesteps(row), states, result[number], strict=True):
            mean, _ = roles_of(utility.role, role_inputs(utility, now))
            for agent in range(3):
                produced = bottleneck(utility.head_weights, mean[agent]) * now.present[agent]
                expected = hidden[agent] @ produced[5:].reshape(4, 5) + produced[:5]
                np.testing.assert_allclose(q[agent], expected, rtol=1e-3, atol=1e-5)


def expected_losses(utility, now, before):
    """The two losses of roles at one timestep; `before` is the previous hidden state."""
    there = now.present[:3]
    seen = role_inputs(utility, now)[there]
    mean, variance = roles_of(utility.role, seen)
    past_mean, past_variance = roles_of(utility.role_prior, np.concatenate([before[there], seen], axis=1))
    entropy = 0.5 * np.log(2 * np.pi * np.e * variance).sum(axis=1)
    spread = (variance + (mean - past_mean) ** 2) / past_variance
    surprise = 0.5 * (spread - 1 - np.log(variance / past_variance)).sum(axis=1)
    similarity, distance = np.zeros((2, there.sum(), there.sum()))
    for one, other in np.ndindex(similarity.shape):
        away = (mean[other] - mean[one]) ** 2 / variance[one] + np.log(2 * np.pi * variance[one])
        similarity[one, other] = np.maximum(-0.5 * away + 13.9, -13.9).mean()
        distance[one, other] = abs(bottleneck(utility.dissimilarity, np.concatenate([mean[one], mean[other]]))[0])
    similarity, distance = ((each - each.min()) / (np.ptp(each) + 1e-12) for each in (similarity, distance))
    identifiability = np.log1p(np.exp((0.1 * entropy + 0.5 * surprise).mean()))
    return identifiability, (distance - np.minimum(similarity + distance, 1)).mean()


def test_the_prior_of_roles_knows_only_the_previous_hidden_state_and_losses_add_up():
    method, spec = built("roma", RECURRENT, entropy_weight=0.1, surprise_weight=0.5, difference_weight=2.0)
    model, target = two_models(method, 9)
    batch = by_hand.batch_with_two_episodes_in_a_row(spec, 9)
    # Roles of a new model are so similar that rounding would show.
    utility = replace(model.utility, role_encoder=jax.tree.map(lambda leaf: 4 * leaf, model.utility.role_encoder))
    model, expected = replace(model, utility=utility), []
    for number, row in enumerate(by_hand.rows(batch.observations)):
        states = by_hand.hidden_states(utility, row)
        for time in np.flatnonzero(batch.valid[number]):
            now = by_hand.timesteps(row)[time]
            expected.append(expected_losses(utility, now, np.zeros((3, 4)) if now.is_first else states[time - 1]))
    identifiability, dissimilarity = np.mean(expected, axis=0)
    total, metrics = jax.jit(method.loss)(model, target, batch, jax.random.key(0))
    assert float(metrics["identifiability_loss"]) == pytest.approx(identifiability, rel=1e-4)
    assert float(metrics["dissimilarity_loss"]) == pytest.approx(dissimilarity, rel=1e-4)
    assert float(total) == pytest.approx(float(metrics["td_loss"]) + identifiability + 2.0 * dissimilarity, rel=1e-4)


def test_sampled_roles_differ_from_key_to_key_and_mean_roles_do_not():
    method, spec = built("roma", RECURRENT, sample_roles=True)
    utility, batch = two_models(method, 0)[0].utility, random_batch(spec, 0)
    q = jax.jit(lambda utility, key: unroll(utility, batch, key=key))
    assert not np.allclose(*(q(utility, jax.random.key(seed)) for seed in (1, 2)))
    mean_roles = replace(utility, sample_roles=False)
    np.testing.assert_array_equal(*(q(mean_roles, jax.random.key(seed)) for seed in (1, 2)))
