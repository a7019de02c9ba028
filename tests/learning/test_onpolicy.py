"""On-policy losses: views, greedy values, and the weighted sum of joint and imagined errors."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.learning import onpolicy
from refil.learning.onpolicy import OnPolicyOptions
from refil.learning.onpolicy_networks import OnPolicyNetOptions, on_policy_model
from refil.types import Spec
from tests.tiny_methods import EPISODES, TIME, random_batch

SPEC = Spec(3, 5, 4, 5, TIME, target_actions=3)
SMALL = OnPolicyNetOptions(size=8, heads=2, memory=4, mixing=4)


@pytest.fixture(scope="module")
def model():
    return on_policy_model(replace(SMALL, mixer="vdn"), SPEC, jax.random.key(0))


@pytest.fixture(scope="module")
def batch():
    groups = jax.random.randint(jax.random.key(2), (EPISODES, 1, SPEC.entities), 0, 2)
    return replace(random_batch(SPEC, 1), groups=jnp.repeat(groups, TIME + 1, axis=1))


@pytest.fixture(scope="module")
def targets():
    return jax.random.normal(jax.random.key(3), (EPISODES, TIME))


def method(weight: float):
    options = OnPolicyOptions(imagined_weight=weight)
    return onpolicy.on_policy_q_learning(partial(on_policy_model, SMALL, SPEC), 0.99, options)


def test_partition_views_split_what_is_visible():
    visible, groups = jnp.array([[True, True, True, False]]), jnp.array([0, 1, 0, 0])
    views = onpolicy.partition_views(visible, groups)
    np.testing.assert_array_equal(views[:, 0], [[1, 1, 1, 0], [1, 0, 1, 0], [0, 1, 0, 0]])


def test_the_greedy_value_of_a_sum_is_the_sum_of_the_best_available_utilities(model, batch):
    from refil.nn.utilities import unroll

    q = jax.jit(lambda model: unroll(model.utility, batch))(model)
    best = jnp.where(batch.observations.available, q, -jnp.inf).max(axis=-1)
    expected = jnp.where(batch.observations.agent_present, best, 0.0).sum(axis=-1)
    np.testing.assert_allclose(jax.jit(onpolicy.greedy_values)(model, batch), expected, atol=1e-5)


def test_the_loss_weighs_joint_and_imagined_errors(model, batch, targets):
    losses = {weight: jax.jit(method(weight).loss)(model, batch, targets) for weight in (0.0, 0.25)}
    joint, metrics = losses[0.25][1]["td_loss"], losses[0.25][1]
    np.testing.assert_allclose(losses[0.0][0], joint, rtol=1e-5)
    np.testing.assert_allclose(losses[0.25][0], 0.75 * joint + 0.25 * metrics["imagined_loss"], rtol=1e-5)
    assert "imagined_loss" not in losses[0.0][1]


def test_invalid_timesteps_do_not_count(model, batch, targets):
    loss = jax.jit(method(0.5).loss)
    changed = jnp.where(batch.valid, targets, 1e6)
    np.testing.assert_array_equal(loss(model, batch, changed)[0], loss(model, batch, targets)[0])
