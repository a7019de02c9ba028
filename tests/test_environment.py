"""Environments to step by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.environment import Environment, make
from refil.errors import RefilError
from tests import tiny_envs


@pytest.fixture
def env() -> Environment:
    return Environment(tiny_envs.build(tiny_envs.Config()), "tiny")


def test_an_episode_is_over_when_its_task_ends_or_at_the_horizon(env):
    """The tasks of the tiny environment end after 1, 2, 3 and 9 steps; its horizon is 4."""
    for task, (length, terminated) in enumerate([(1, True), (2, True), (3, True), (4, False)]):
        state, obs = env.reset(jax.random.key(0), task)
        assert bool(obs.is_first)
        for time in range(1, length + 1):
            actions = jnp.argmax(obs.available, axis=-1)
            state, obs, outcome = env.step(state, actions, jax.random.key(time))
            assert bool(outcome.done) == (time == length)
            np.testing.assert_array_equal(obs.last_action, actions)
            assert not bool(obs.is_first)
        assert (bool(outcome.terminated), bool(outcome.truncated)) == (terminated, not terminated)


def test_steps_after_the_end_change_nothing_and_pay_nothing(env):
    state, obs = env.reset(jax.random.key(0), 0)
    actions = jnp.argmax(obs.available, axis=-1)
    over, _, outcome = env.step(state, actions, jax.random.key(1))
    assert float(outcome.reward) != 0
    later, _, nothing = env.step(over, actions, jax.random.key(2))
    assert float(nothing.reward) == 0
    assert not bool(nothing.done)
    assert all((a == b).all() for a, b in zip(*map(jax.tree.leaves, (over.core, later.core)), strict=True))


def test_tasks_have_names_and_numbers(env):
    with pytest.raises(RefilError, match=r"tiny has no task 99; its tasks are numbered from 0 to 3"):
        env.reset(jax.random.key(0), 99)
    with pytest.raises(RefilError, match=r"unknown task 'x' of tiny"):
        env.reset(jax.random.key(0), "x")


def test_names_are_numbered_where_the_environment_has_none(env):
    assert env.action_names[:2] == ("action 0", "action 1")
    assert len(make("group_matching").feature_names) == make("group_matching").spec.features
