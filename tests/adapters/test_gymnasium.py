"""Gymnasium's vector environments: spaces, rewards, and the next episode in the step that ends one."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import refil
from refil.adapters.gymnasium import VectorEnv
from refil.errors import RefilError
from tests.adapters.test_episodes import COUNTING

ALL_ONE = np.ones((8, 2), int)


def lengths(observations: dict) -> np.ndarray:
    """Whether the second agent is there, which depends on the length of the task."""
    return observations["present"][:, 1]


def test_episodes_that_end_start_again_in_the_same_step():
    env = VectorEnv(COUNTING, num_envs=8)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    observations, _ = env.reset(seed=0)
    time, ended = np.zeros(8, int), 0
    for _ in range(8):
        assert (observations["entities"][:, 0, 0] == time).all()  # the first feature counts the steps
        observations, rewards, terminated, truncated, infos = env.step(ALL_ONE)
        assert (rewards == time + 1).all()
        over = terminated | truncated
        assert (truncated == (over & (time == 3))).all()
        for number in np.flatnonzero(over):
            assert infos["final_obs"][number]["entities"][0, 0] == time[number] + 1
        assert all(infos["final_obs"][number] is None for number in np.flatnonzero(~over)) or not over.any()
        assert not over.any() or (infos["_final_obs"] == over).all()
        assert (infos["won"] == terminated).all()
        time = np.where(over, 0, time + 1)
        ended += over.sum()
    assert ended > 8


def test_observations_and_actions_are_in_their_spaces():
    env = VectorEnv("2-4m", num_envs=3, limit=5)
    observations, _ = env.reset(seed=1)
    assert env.observation_space.contains(observations)
    for _ in range(6):
        actions = env.action_space.sample()  # most are not available, and are replaced
        observations, rewards, *_ = env.step(actions)
        assert env.observation_space.contains(observations)
        assert rewards.shape == (3,)


def test_the_same_seed_and_actions_give_the_same_episodes():
    runs = []
    for _ in range(2):
        env = VectorEnv(COUNTING, num_envs=8)
        seen = [lengths(env.reset(seed=2)[0])] + [lengths(env.step(ALL_ONE)[0]) for _ in range(5)]
        runs.append(np.stack(seen))
    assert (runs[0] == runs[1]).all()
    assert len(np.unique(runs[0])) == 2


def test_a_reset_is_needed_first_and_there_is_at_least_one_environment():
    with pytest.raises(RefilError, match="call reset before step"):
        VectorEnv(COUNTING).step(np.ones((1, 2), int))
    with pytest.raises(RefilError, match="num_envs must be 1 or more, not 0"):
        VectorEnv(refil.make("group_matching"), 0)
