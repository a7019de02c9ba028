"""Memory of episodes."""

import jax
import jax.numpy as jnp
import pytest

from refil.errors import RefilError
from refil.rollout import random_policy, rollout
from refil.training import devices, memory
from tests import tiny_envs


def test_the_size_of_a_recorded_episode_is_that_of_its_states_actions_and_rewards():
    env = tiny_envs.build(tiny_envs.Config())
    sizes = memory.episode_bytes(env)
    assert sizes.state == 8
    assert sizes.observation == 3 * 2 * 4 + 3 + 2 * 3 + 2 * 2
    played = jax.eval_shape(lambda keys: rollout(env, random_policy, (), jnp.zeros((1, 1), int), keys), jax.random.key(0)[None])
    assert sizes.trajectory == memory.num_bytes((played.states, played.actions, played.rewards))


def test_more_episodes_than_fit_are_refused_with_the_option(monkeypatch):
    env = tiny_envs.build(tiny_envs.Config())
    monkeypatch.setattr(devices, "memory_bytes", lambda: 10**6)
    memory.check_episodes(env, 10_000, "--episodes")
    with pytest.raises(RefilError, match=r"100,000 episodes at once need 0\.0 GB of memory .*; reduce --episodes"):
        memory.check_episodes(env, 100_000, "--episodes")
    with pytest.raises(RefilError, match=r"10,000 episodes at once"):
        memory.check_episodes(env, 10_000, "episodes", recorded=True)
