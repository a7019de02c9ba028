"""The arithmetic of Q-learning, worked by hand."""

import jax.numpy as jnp
import numpy as np

from refil.learning import td


def test_the_best_action_is_an_available_one():
    q = jnp.array([[3.0, 2.0, 1.0], [-5.0, -7.0, -6.0]])
    available = jnp.array([[False, True, True], [False, True, True]])
    np.testing.assert_array_equal(td.greedy(q, available), [1, 2])


def test_chosen_takes_one_action_of_each_row_through_every_view():
    q = jnp.arange(12.0).reshape(2, 2, 3)
    np.testing.assert_array_equal(td.chosen(q, jnp.array([2, 0])), [[2, 3], [8, 9]])


def test_a_terminated_step_is_worth_its_reward_and_a_cut_off_one_goes_on():
    goals = td.targets(jnp.array([1.0, 1.0]), jnp.array([True, False]), jnp.array([10.0, 10.0]), 0.9)
    np.testing.assert_allclose(goals, [1.0, 10.0])


def test_an_episode_of_length_l_contributes_l_terms():
    values = jnp.array([[1.0, 2.0, jnp.inf], [3.0, jnp.nan, -1e30]])
    valid = jnp.array([[True, True, False], [True, False, False]])
    assert td.squared_error(values, jnp.zeros((2, 3)), valid) == (1 + 4 + 9) / 3


def test_no_valid_step_is_no_error():
    assert td.squared_error(jnp.ones((1, 2)), jnp.zeros((1, 2)), jnp.zeros((1, 2), bool)) == 0


def test_errors_are_reported_beside_the_variance_of_their_goals():
    goals, valid = jnp.array([[1.0, 3.0, 100.0]]), jnp.array([[True, True, False]])
    report = td.report(jnp.array([[1.0, 1.0, -50.0]]), goals, valid)
    assert report == {"td_loss": 2.0, "target_variance": 1.0}
