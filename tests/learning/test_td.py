"""Temporal-difference arithmetic, worked out by hand."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.learning import td
from refil.types import EpisodeBatch, Observation


def batch_of(rewards, terminated, valid, actions=None, available=None) -> EpisodeBatch:
    """Return a batch of one agent with two actions."""
    rewards = jnp.asarray(rewards, jnp.float32)
    rows, time = rewards.shape
    here = (rows, time + 1)
    obs = Observation(
        entities=jnp.zeros((*here, 1, 1)),
        present=jnp.ones((*here, 1), bool),
        visible=jnp.ones((*here, 1, 1), bool),
        available=jnp.ones((*here, 1, 2), bool) if available is None else jnp.asarray(available),
    )
    actions = jnp.zeros((rows, time, 1), jnp.int32) if actions is None else jnp.asarray(actions)
    ids = jnp.zeros(here, jnp.int32)
    return EpisodeBatch(obs, ids, actions, rewards, jnp.asarray(terminated, bool), jnp.asarray(valid, bool), rows)


def test_action_values_picks_one_action_of_each_agent_through_every_view():
    q = jnp.arange(12.0).reshape(2, 2, 3)
    np.testing.assert_array_equal(td.action_values(q, jnp.array([2, 0])), [[2, 3], [8, 9]])


def test_select_q_picks_the_actions_that_were_taken():
    batch = batch_of([[0, 0]], [[0, 0]], [[1, 1]], actions=[[[1], [0]]])
    q = jnp.array([[[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]])
    np.testing.assert_array_equal(td.select_q(q, batch), [[[2], [3]]])


def test_double_q_values_the_next_action_that_the_online_network_prefers():
    available = [[[[True, True]], [[True, True]], [[False, True]]]]
    batch = batch_of([[0, 0]], [[0, 0]], [[1, 1]], available=available)
    q = jnp.array([[[[9.0, 0.0]], [[1.0, 2.0]], [[4.0, 3.0]]]])  # 0 is unavailable at the third timestep
    target_q = jnp.array([[[[0.0, 0.0]], [[70.0, 10.0]], [[80.0, 20.0]]]])
    np.testing.assert_array_equal(td.double_q(q, target_q, batch), [[[10], [20]]])


def test_a_terminated_step_has_the_value_of_its_reward_and_a_truncated_one_bootstraps():
    targets = td.targets(jnp.array([1.0, 1.0]), jnp.array([True, False]), jnp.array([10.0, 10.0]), 0.9)
    np.testing.assert_allclose(targets, [1.0, 10.0])


# Two episodes of three steps; the first terminates after two steps, the second is truncated.
REWARDS, VALID = [[1.0, 2.0, 0.0], [1.0, 2.0, 3.0]], [[1, 1, 0], [1, 1, 1]]
ENDED = batch_of(REWARDS, [[0, 1, 0], [0, 0, 0]], VALID)
NEXT_VALUES = jnp.array([[10.0, 20.0, 30.0], [10.0, 20.0, 30.0]])


def test_lambda_targets_worked_out_by_hand():
    result = td.lambda_targets(ENDED, NEXT_VALUES, 0.5, 0.25)
    # First episode: 2, then 1 + 0.5 (0.75 * 10 + 0.25 * 2) = 5. Second: 3 + 0.5 * 30 = 18, 2 + 0.5 (0.75 * 20 + 0.25 * 18)
    # = 11.75, 1 + 0.5 (0.75 * 10 + 0.25 * 11.75) = 6.21875.
    np.testing.assert_allclose(result[0, :2], [5.0, 2.0])
    np.testing.assert_allclose(result[1], [6.21875, 11.75, 18.0])


def test_lambda_0_gives_one_step_targets():
    one_step = td.targets(ENDED.rewards, ENDED.terminated, NEXT_VALUES, 0.9)
    np.testing.assert_allclose(td.lambda_targets(ENDED, NEXT_VALUES, 0.9, 0.0), one_step, rtol=1e-6)


def test_lambda_1_gives_discounted_returns_that_bootstrap_only_where_truncated():
    result = td.lambda_targets(ENDED, NEXT_VALUES, 0.5, 1.0)
    np.testing.assert_allclose(result[0, :2], [1 + 0.5 * 2, 2])
    np.testing.assert_allclose(result[1], [1 + 0.5 * 2 + 0.25 * 3 + 0.125 * 30, 2 + 0.5 * 3 + 0.25 * 30, 3 + 0.5 * 30])


@pytest.mark.parametrize("lambda_", [0.0, 0.6, 1.0])
def test_lambda_targets_are_the_same_padded_and_packed(lambda_):
    """The packed row is: two steps and an end, three steps and an end, one step and an end."""
    lengths, time = [2, 3, 1], 4
    draw = np.random.default_rng(0)
    rewards, values = draw.normal(size=(2, 3, time))
    terminated = np.zeros((3, time), bool)
    terminated[0, 1] = True  # the others are truncated
    valid = np.arange(time) < np.array(lengths)[:, None]
    padded = td.lambda_targets(batch_of(rewards, terminated, valid), jnp.asarray(values, jnp.float32), 0.9, lambda_)

    def packed(rows):
        return np.concatenate([row[: length + 1] for row, length in zip(rows, lengths, strict=True)])[None]

    single_row = batch_of(packed(rewards), packed(terminated), packed(valid))
    result = td.lambda_targets(single_row, jnp.asarray(packed(values), jnp.float32), 0.9, lambda_)
    where = packed(valid)
    np.testing.assert_allclose(np.asarray(result)[where], packed(np.asarray(padded))[where], rtol=1e-5)


def test_lambda_targets_of_several_agents_are_those_of_each():
    values = jnp.stack([NEXT_VALUES, 2 * NEXT_VALUES], axis=-1)
    result = td.lambda_targets(ENDED, values, 0.9, 0.5)
    for agent in range(2):
        alone = td.lambda_targets(ENDED, values[..., agent], 0.9, 0.5)
        np.testing.assert_allclose(result[..., agent], alone, rtol=1e-6)


def test_targets_have_no_gradient():
    for targets in (
        lambda values: td.targets(ENDED.rewards, ENDED.terminated, values, 0.9),
        lambda values: td.lambda_targets(ENDED, values, 0.9, 0.5),
    ):
        gradient = jax.grad(lambda values, targets=targets: targets(values).sum())(NEXT_VALUES)
        np.testing.assert_array_equal(gradient, jnp.zeros_like(NEXT_VALUES))


def test_values_after_the_end_do_not_reach_lambda_targets():
    garbage = replace(ENDED, rewards=ENDED.rewards.at[0, 2].set(1e9))
    one, other = (td.lambda_targets(batch, NEXT_VALUES, 0.9, 0.5) for batch in (ENDED, garbage))
    np.testing.assert_array_equal(one[0, :2], other[0, :2])


def test_an_episode_of_length_l_contributes_l_terms():
    values = jnp.array([[1.0, 2.0, jnp.inf], [3.0, jnp.nan, -1e30]])
    valid = jnp.array([[True, True, False], [True, False, False]])
    assert td.squared_error(values, jnp.zeros((2, 3)), valid) == (1 + 4 + 9) / 3


def test_without_valid_steps_the_error_is_zero():
    assert td.squared_error(jnp.ones((1, 2)), jnp.zeros((1, 2)), jnp.zeros((1, 2), bool)) == 0


def test_the_loss_comes_with_the_variance_of_its_targets():
    targets, valid = jnp.array([[1.0, 3.0, 100.0]]), jnp.array([[True, True, False]])
    loss, metrics = td.loss(jnp.array([[1.0, 1.0, -50.0]]), targets, valid)
    assert loss == 2.0
    assert metrics == {"td_loss": 2.0, "target_variance": 1.0}
