"""Episodes of random actions."""

import numpy as np

from refil.checks.episodes import Subject
from tests import tiny_envs

SUBJECT = Subject(tiny_envs.build(tiny_envs.Config()))


def test_every_task_is_played_at_least_twice():
    played, obs = SUBJECT.episodes
    counts = np.bincount(played.task)
    assert SUBJECT.num_episodes == len(played.valid) == 8
    assert (counts >= 2).all()
    assert obs.present.shape[:2] == (8, played.valid.shape[1] + 1)


def test_only_available_actions_of_present_agents_are_played():
    played, obs = SUBJECT.episodes
    available = np.take_along_axis(obs.available[:, :-1], played.actions[..., None], axis=-1)[..., 0]
    here = played.valid[..., None] & obs.present[:, :-1, : available.shape[-1]]
    assert available[here].all()


def test_observations_are_those_of_reached_timesteps():
    played, _ = SUBJECT.episodes
    assert len(SUBJECT.obs.present) == played.valid.sum() + len(played.valid)


def test_episodes_can_be_shortened():
    played, _ = Subject(SUBJECT.env, steps=2).episodes
    assert played.valid.shape[1] == 2


def test_sampled_states_are_from_before_the_end():
    assert len(SUBJECT.sampled_states().time) == min(64, int(SUBJECT.episodes[0].valid.sum()))
