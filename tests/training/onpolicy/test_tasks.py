"""Which tasks are sampled, and the win rates that decide it, worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.training.onpolicy import tasks

EPISODES = 40_000


def shares(fraction: float, rates) -> np.ndarray:
    keys = jax.random.split(jax.random.key(0), (1, EPISODES))
    drawn = tasks.sample(fraction, jnp.array([rates], jnp.float32), keys)
    return np.bincount(np.asarray(drawn)[0], minlength=len(rates)) / EPISODES


def test_without_learnability_all_tasks_are_equally_likely():
    np.testing.assert_allclose(shares(0.0, [0.0, 0.5, 1.0, 0.9]), 0.25, atol=0.01)


@pytest.mark.parametrize(
    ("fraction", "expected"),
    [(1.0, [0.01 / 0.38, 0.26 / 0.38, 0.01 / 0.38, 0.10 / 0.38]), (0.5, [0.138, 0.467, 0.138, 0.257])],
)
def test_tasks_that_are_sometimes_won_are_more_likely(fraction, expected):
    np.testing.assert_allclose(shares(fraction, [0.0, 0.5, 1.0, 0.9]), expected, atol=0.01)


def test_before_anything_is_won_all_tasks_are_equally_likely():
    np.testing.assert_allclose(shares(1.0, [0.0, 0.0, 0.0, 0.0]), 0.25, atol=0.01)


def test_win_rates_average_the_latest_episodes_of_each_task_and_seed():
    before = jnp.array([[0.5, 0.5, 0.5], [0.0, 0.0, 0.0]])
    # Two steps of two environments: seed 0 ends task 0 twice (won once), seed 1 task 2 once (won); task 1 does not end.
    played = jnp.array([[[0, 1], [2, 1]], [[0, 1], [2, 1]]])
    ended = jnp.array([[[True, False], [True, False]], [[True, False], [False, False]]])
    won = jnp.array([[[True, True], [True, True]], [[False, True], [True, True]]])
    after = tasks.update(before, played, ended, won)
    np.testing.assert_allclose(after, [[0.5, 0.5, 0.5], [0.0, 0.0, 0.01]], atol=1e-6)
    all_won = tasks.update(before, played, ended, jnp.ones_like(won))
    np.testing.assert_allclose(all_won[0, 0], 0.99**2 * 0.5 + (1 - 0.99**2), rtol=1e-5)
