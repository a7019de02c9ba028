"""Details of played episodes."""

import jax
import numpy as np

from refil.team import Team
from refil.training import config


def test_details_agree_with_the_team_step_by_step():
    """Q-values, attention and actions of a page are those that the team has when it acts in these states."""
    asked = config.default("group_matching", "refil").with_options(
        {"agents": 3, "cells": 4, "horizon": 5}, {"size": 8, "heads": 2, "recurrent": True, "last_action": True}
    )
    setup = asked.build()
    team = Team(setup.method.init(jax.random.key(0)), setup.env, "game")
    first, replay = team.play(2)
    found = replay.details
    assert found is not None
    assert len(found.actions) == replay.length == len(replay.rewards)
    assert found.q.shape == (3, replay.length, 3, 3)
    assert found.attention.shape == (replay.length, 2, 3, 3)
    chosen = np.where(found.available, found.q[0], -np.inf).argmax(axis=-1)
    np.testing.assert_array_equal(chosen, found.actions)
    np.testing.assert_allclose(found.attention.sum(axis=-1), 1.0, rtol=1e-5)
    assert set(found.groups.tolist()) <= {0, 1}
    encoded = found.encode()
    action, target, q, seen = encoded["steps"][0][1]
    assert action == found.actions[0, 1]
    assert target == -1
    assert [row[0] for row in q] == [0, 1, 2]
    assert q[action][1] == max(row[1] for row in q)
    assert [row[0] for row in seen] == [0, 1, 2]
    assert encoded["actions"] == ["back", "stay", "forward"]
    assert first.details is not None
