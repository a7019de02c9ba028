"""Environments to step by hand."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.environment import Environment, make
from refil.errors import RefilError
from refil.examples import beacon
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


def test_making_an_environment_starts_no_backend():
    """`refil.configure` may come after it: each family of environments, and a user's file."""
    names = ["group_matching", "3m", "3-8sz", "3-8sz-varied", "3s5z_vs_3s6z", "sc2:3-8sz", beacon.__file__]
    program = (
        f"import refil\nfrom jax._src import xla_bridge\nfor name in {names}:\n    refil.make(name)\n"
        "    assert not xla_bridge.backends_are_initialized(), name"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["3-8sz", "3-8sz-varied"])
def test_tasks_are_indexed_with_traced_numbers(name):
    env = make(name)
    last = len(env.task_names) - 1
    traced, obs = jax.jit(env.reset)(jax.random.key(0), jnp.asarray(last))
    assert traced.core.unit_type.dtype == jnp.int8
    assert obs.entities.dtype == jnp.float32
    np.testing.assert_array_equal(traced.core.unit_type, env.core.armies[last])
