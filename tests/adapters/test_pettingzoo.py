"""PettingZoo: the library's own tests pass, and episodes are those of the bare environment."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

import refil
from refil.adapters.pettingzoo import ParallelEnv
from refil.errors import RefilError
from tests.adapters.test_episodes import COUNTING


@pytest.fixture(scope="module")
def marines() -> refil.Environment:
    return refil.make("2-4m", limit=20)


def masked(env: ParallelEnv, observations: dict) -> dict[str, int]:
    return {agent: int(env.action_space(agent).sample(observations[agent]["action_mask"])) for agent in env.agents}


def test_the_api_test_of_pettingzoo_passes(marines):
    with warnings.catch_warnings():  # of smaller teams: not all possible agents take part
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", "No agents present")
        parallel_api_test(ParallelEnv(marines), num_cycles=60)


def test_the_seed_test_of_pettingzoo_passes(marines):
    parallel_seed_test(lambda: ParallelEnv(marines), num_cycles=30)


def test_agents_are_the_members_of_the_team():
    env = ParallelEnv(COUNTING)
    for task, members in (("3 steps", ["agent_0"]), ("2 steps", ["agent_0", "agent_1"])):
        observations, infos = env.reset(seed=0, options={"task": task})
        assert env.agents == members == list(observations) == list(infos)
    assert env.possible_agents == ["agent_0", "agent_1"]


def test_episodes_terminate_or_are_truncated():
    env = ParallelEnv(COUNTING)
    for task, ends in (("2 steps", (True, False)), ("never", (False, True))):
        env.reset(options={"task": task})
        rewards = []
        while env.agents:
            _, reward, terminations, truncations, infos = env.step(dict.fromkeys(env.agents, 1))
            rewards.append(reward["agent_0"])
        assert rewards == [1, 2] if task == "2 steps" else [1, 2, 3, 4]
        assert (terminations["agent_0"], truncations["agent_0"]) == ends
        assert infos["agent_0"]["won"] == ends[0]


def test_dead_agents_leave_unless_they_are_kept(marines):
    for remove_dead in (True, False):
        env = ParallelEnv(marines, remove_dead=remove_dead)
        died = 0
        for seed in range(3):
            observations, _ = env.reset(seed=seed, options={"task": "4m"})
            while len(env.agents) > 1:
                before = list(env.agents)
                observations, _, terminations, _, _ = env.step(masked(env, observations))
                dead = [agent for agent in before if not observations[agent]["observation"].any()]
                died += len(dead)
                if env.agents:
                    assert env.agents == ([agent for agent in before if agent not in dead] if remove_dead else before)
                    assert all(terminations[agent] == (remove_dead and agent in dead) for agent in before)
                if not env.agents:
                    break
        assert died > 0


def test_observations_are_in_their_spaces_and_the_state_is_that_of_all_entities(marines):
    env = ParallelEnv(marines)
    observations, _ = env.reset(seed=1, options={"task": "3m"})
    assert all(env.observation_space(agent).contains(observations[agent]) for agent in env.agents)
    assert env.state_space.contains(env.state())


def test_forbidden_actions_are_replaced_and_missing_ones_refused():
    env = ParallelEnv(COUNTING)
    env.reset(options={"task": "2 steps"})
    env.step({"agent_0": 0, "agent_1": 0})
    with pytest.raises(RefilError, match="no action for agent_0"):
        env.step({"agent_1": 1})
    assert env.step({"agent_0": 0, "agent_1": 7})[4]["agent_0"]["won"]  # the game is won by action 1, the only one allowed


def test_episodes_are_those_of_the_bare_environment(marines):
    env = ParallelEnv(marines)
    env.reset(seed=5, options={"task": "3m"})
    key = jax.random.fold_in(jax.random.key(5), 0)
    state, obs = marines.reset(jax.random.fold_in(key, 0), "3m")
    for time in range(4):
        np.testing.assert_allclose(env.state(), np.asarray(obs.entities).reshape(-1), atol=1e-6)
        actions = np.asarray(obs.available).argmax(axis=-1)
        env.step({agent: int(actions[int(agent[-1])]) for agent in env.agents})
        state, obs, _ = marines.step(state, jnp.asarray(actions), jax.random.fold_in(key, time + 1))
