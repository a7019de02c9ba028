"""The interface of SMAC and of the REFIL authors' code."""

import numpy as np
import pytest

import refil
from refil.adapters.smac import SmacEnv
from refil.errors import RefilError
from tests.adapters.test_episodes import COUNTING


def test_a_loop_as_in_pymarl_plays_episodes_to_their_ends():
    env = SmacEnv("2-4m", seed=0, limit=30)
    info, rng = env.get_env_info(), np.random.default_rng(0)
    for _ in range(2):
        env.reset()
        terminated, steps = False, 0
        while not terminated:
            observations, state = env.get_obs(), env.get_state()
            assert [len(each) for each in observations] == [info["obs_shape"]] * info["n_agents"]
            assert state.shape == (info["state_shape"],)
            available = [env.get_avail_agent_actions(agent) for agent in range(info["n_agents"])]
            assert available == env.get_avail_actions()
            actions = [rng.choice(np.flatnonzero(each)) for each in available]
            _, terminated, step_info = env.step(actions)
            steps += 1
        assert 0 < steps <= info["episode_limit"] == 30
        assert set(step_info) == {"battle_won", "episode_limit"}
    assert env.get_stats()["battles_game"] == 2


def test_sizes_are_those_of_the_environment():
    spec = refil.make("2-4m").spec
    info = SmacEnv("2-4m").get_env_info()
    assert (info["n_agents"], info["n_entities"], info["n_actions"]) == (spec.agents, spec.entities, spec.actions)
    assert info["entity_shape"] == spec.features
    assert info["state_shape"] == spec.entities * spec.features
    assert info["obs_shape"] == (spec.entities + 1) * spec.features


def test_masks_hide_what_is_absent_or_unseen():
    env = SmacEnv(COUNTING)
    env.reset("3 steps")  # without the second agent
    hidden, absent = env.get_masks()
    assert hidden.tolist() == [[0, 1, 0], [1, 1, 1], [1, 1, 1]]
    assert absent.tolist() == [0, 1, 0]
    assert [entity.tolist() for entity in env.get_entities()] == [[0, 0], [0, 0], [0, 2]]


def test_truncation_at_the_horizon_is_reported_as_the_episode_limit():
    env = SmacEnv(COUNTING)
    env.reset("never")
    results = [env.step([1, 1]) for _ in range(4)]
    assert [over for _, over, _ in results] == [False, False, False, True]
    assert results[-1][2] == {"battle_won": False, "episode_limit": True}
    env.reset("1 step")
    assert env.step([1, 1]) == (1.0, True, {"battle_won": True, "episode_limit": False})
    assert env.get_stats() == {"battles_game": 2, "battles_won": 1, "timeouts": 1, "win_rate": 0.5, "restarts": 0}


def test_the_same_seed_gives_the_same_tasks():
    tasks = [[SmacEnv(COUNTING, seed=seed).reset()[1].tolist() for _ in range(1)] for seed in (3, 3)]
    assert tasks[0] == tasks[1]


def test_actions_that_are_not_available_are_refused():
    env = SmacEnv(COUNTING)
    env.reset("never")
    env.step([0, 0])
    with pytest.raises(RefilError, match="agent 0 cannot choose action 0"):
        env.step([0, 1])
