"""Trained teams: acting, Q-values, attention and replays."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import refil
from refil.errors import RefilError
from refil.nn.utilities import team_policy, team_state
from refil.rollout import rollout
from refil.team import Team
from refil.training import config


def team_of(method: str, **options) -> Team:
    asked = config.default("group_matching", method).with_options(
        {"agents": 3, "cells": 4, "horizon": 6}, {"size": 8, "heads": 2, "recurrent": True} | options
    )
    setup = asked.build()
    return Team(setup.method.init(jax.random.key(0)), setup.env, method)


@pytest.fixture(scope="module")
def team() -> Team:
    return team_of("refil", last_action=True)


def test_a_team_acts_as_in_training(team):
    """Step by step through the API, a team chooses the actions that a rollout records."""
    env = refil.Environment(team.env, "game")
    models = jax.tree.map(lambda leaf: leaf[None], team.model)
    policy, start = team_policy(models, jnp.zeros(1)), team_state(models, 2, 3)
    recorded = rollout(team.env, policy, start, jnp.zeros((1, 2), jnp.int32), jax.random.split(jax.random.key(3), 1))
    state = team.initial_state(2)
    for time in range(int(recorded.valid.sum(axis=-1).max())):
        core = jax.tree.map(lambda leaf, t=time: leaf[0, :, t], recorded.states)
        obs = jax.vmap(team.env.observe)(core)
        actions, state = team.act(obs, state)
        valid = np.asarray(recorded.valid[0, :, time])
        np.testing.assert_array_equal(np.asarray(actions)[valid], np.asarray(recorded.actions[0, :, time])[valid])
    assert env.spec is team.env.spec


def test_a_team_forgets_when_an_episode_starts(team):
    env = refil.Environment(team.env, "game")
    keys = jax.random.split(jax.random.key(0), 2)
    state, first = jax.vmap(env.reset)(keys)
    hidden = team.initial_state(2)
    actions, hidden = team.act(first, hidden)
    _, later, _ = jax.vmap(env.step)(state, actions, keys)
    _, hidden = team.act(later, hidden)
    np.testing.assert_allclose(team.q_values(first, hidden), team.q_values(first, team.initial_state(2)), rtol=1e-6)


def test_one_episode_without_a_batch_axis_is_the_batch_of_one(team):
    env = refil.Environment(team.env, "game")
    _, obs = env.reset(jax.random.key(0))
    alone, _ = team.act(obs, team.initial_state())
    batch, _ = team.act(jax.tree.map(lambda leaf: leaf[None], obs), team.initial_state(1))
    np.testing.assert_array_equal(alone, batch[0])


def test_with_epsilon_one_actions_are_random_and_change(team):
    env = refil.Environment(team.env, "game")
    _, obs = env.reset(jax.random.key(0))
    state, chosen = team.initial_state(seed=1), set()
    for _ in range(20):
        actions, state = team.act(obs, state, epsilon=1.0)
        chosen.add(tuple(np.asarray(actions).tolist()))
    assert len(chosen) > 3


def test_attention_is_a_distribution_over_visible_entities(team):
    env = refil.Environment(team.env, "game")
    _, obs = env.reset(jax.random.key(0))
    weights = team.attention(obs, team.initial_state())
    assert weights.shape == (2, 3, 3)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-5)
    hidden = replace(obs, visible=obs.visible.at[:, 1].set(False))
    weights = team.attention(hidden, team.initial_state())
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-5)
    assert (weights[..., 1] == 0).all()


def test_a_utility_without_attention_is_named():
    pooling = config.default("group_matching", "qmix_mean_pooling").with_options({"agents": 3}, {"size": 8})
    setup = pooling.build()
    team = Team(setup.method.init(jax.random.key(0)), setup.env, "pooling")
    _, obs = refil.Environment(setup.env, "game").reset(jax.random.key(0))
    with pytest.raises(RefilError, match="FeedForwardUtility of pooling has no entity attention"):
        team.attention(obs, team.initial_state())


def test_an_unknown_task_is_named(team):
    with pytest.raises(RefilError, match="unknown task 'x'; available: group_matching"):
        team.play(task="x")
