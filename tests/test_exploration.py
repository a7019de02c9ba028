"""Exploration."""

import jax
import jax.numpy as jnp
import numpy as np

from refil import exploration


def test_epsilon_falls_in_a_straight_line_to_its_end():
    np.testing.assert_allclose(
        exploration.epsilon_at(jnp.array([0, 2500, 5000, 10**6]), 0.05, 5000), [1.0, 0.525, 0.05, 0.05], atol=1e-6
    )


def test_greedy_actions_where_epsilon_is_0_and_uniform_available_ones_where_it_is_1():
    q = jnp.array([[0.0, 1.0, 2.0], [5.0, 1.0, 2.0]])
    available = jnp.array([[True, True, False], [True, True, True]])
    choose = jax.vmap(lambda epsilon, key: exploration.epsilon_greedy(q, available, epsilon, key), in_axes=(None, 0))
    keys = jax.random.split(jax.random.key(0), 6000)
    np.testing.assert_array_equal(choose(jnp.asarray(0.0), keys), np.broadcast_to([1, 0], (6000, 2)))
    random = np.asarray(choose(jnp.asarray(1.0), keys))
    np.testing.assert_allclose(np.bincount(random[:, 0], minlength=3) / 6000, [0.5, 0.5, 0], atol=0.03)
    np.testing.assert_allclose(np.bincount(random[:, 1], minlength=3) / 6000, [1 / 3, 1 / 3, 1 / 3], atol=0.03)


def test_every_agent_flips_its_own_coin():
    q, available = jnp.array([[1.0, 0.0]] * 2), jnp.ones((2, 2), bool)
    choose = jax.vmap(lambda key: exploration.epsilon_greedy(q, available, jnp.asarray(0.5), key))
    actions = np.asarray(choose(jax.random.split(jax.random.key(1), 4000)))
    np.testing.assert_allclose(actions.mean(axis=0), [0.25, 0.25], atol=0.03)
    np.testing.assert_allclose((actions[:, 0] & actions[:, 1]).mean(), 0.0625, atol=0.02)
