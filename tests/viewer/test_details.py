"""Details of played episodes."""

import jax
import jax.numpy as jnp
import numpy as np

from refil.learning import losses
from refil.nn.utilities import team_policy, team_state
from refil.rollout import rollout
from refil.team import Team
from refil.training import config
from refil.viewer import details


def small_team() -> Team:
    asked = config.default("group_matching", "refil").with_options(
        {"agents": 3, "cells": 4, "horizon": 5}, {"size": 8, "heads": 2, "recurrent": True, "last_action": True}
    )
    setup = asked.build()
    return Team(setup.method.init(jax.random.key(0)), setup.env, "game")


def test_details_agree_with_the_team_step_by_step():
    """Q-values, attention and actions of a page are those that the team has when it acts in these states."""
    team = small_team()
    models = jax.tree.map(lambda leaf: leaf[None], team.model)
    policy, start = team_policy(models, jnp.zeros(1)), team_state(models, 2, 3)
    played = rollout(team.env, policy, start, jnp.zeros((1, 2), jnp.int32), jax.random.split(jax.random.key(3), 1))
    played = jax.tree.map(lambda leaf: leaf[0], played)
    for number, found in enumerate(details.details(team.env, team.model, played)):
        state = team.initial_state()
        assert len(found.actions) == int(played.valid[number].sum()) > 0
        for time in range(len(found.actions)):
            obs = team.env.observe(jax.tree.map(lambda leaf, t=time, n=number: leaf[n, t], played.states))
            np.testing.assert_allclose(found.q[0, time], team.q_values(obs, state), rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(found.attention[time], team.attention(obs, state), rtol=1e-4, atol=1e-6)
            actions, state = team.act(obs, state)
            np.testing.assert_array_equal(found.actions[time], actions)


def test_a_page_gets_the_details_of_every_step():
    first, replay = small_team().play(2)
    found = replay.details
    assert found is not None
    assert len(found.actions) == replay.length == len(replay.rewards)
    assert found.q.shape == (1 + 2 * 4, replay.length, 3, 3)  # all it sees, and two views per partition
    assert found.attention.shape == (replay.length, 2, 3, 3)
    chosen = np.where(found.available, found.q[0], -np.inf).argmax(axis=-1)
    np.testing.assert_array_equal(chosen, found.actions)
    np.testing.assert_allclose(found.attention.sum(axis=-1), 1.0, rtol=1e-5)
    assert set(found.groups.ravel().tolist()) <= {0, 1}
    encoded = found.encode()
    assert len(encoded["groups"]) == 4
    assert encoded["views"] == ["all it sees", "within its group", "across groups"]
    action, target, q, seen = encoded["steps"][0][1]
    assert action == found.actions[0, 1]
    assert target == -1
    assert [row[0] for row in q] == [0, 1, 2]
    assert q[action][1] == max(row[1] for row in q)
    assert [row[0] for row in seen] == [0, 1, 2]
    assert encoded["actions"] == ["back", "stay", "forward"]
    assert first.details is not None


def test_partitions_are_those_of_refil():
    """Its shares of the first group are uniform on (0, 1); those of fair coins would have a tenth of their variance."""
    team = small_team()
    played = [team.play(4, seed=seed) for seed in range(2)]
    assert all(replay.details.groups.shape == (4, 3) for replays in played for replay in replays)
    keys = jax.random.split(jax.random.split(jax.random.key(details.PARTITION_SEED))[0], (4, details.PARTITIONS))
    expected = jax.vmap(jax.vmap(lambda key: losses.random_partition(3, 2, key)))(keys)
    np.testing.assert_array_equal([replay.details.groups for replay in played[0]], expected)
