"""Episodes of other environments."""

import jax
import pytest

from refil import environment
from refil.envs import group_matching
from refil.errors import RefilError
from refil.lab.episodes import Player
from refil.team import Team
from refil.training import config


def test_a_team_plays_the_episode_that_it_plays_in_python():
    sizes = {"agents": 3, "cells": 4, "horizon": 5}
    setup = config.default("group_matching", "refil").with_options(sizes, {"size": 8, "heads": 2}).build()
    team = Team(setup.method.init(jax.random.key(0)), setup.env, "game")
    player = Player(setup.env, "game", team)
    mine, (expected,) = player.play("group_matching", 3), team.play(1, "group_matching", 3)
    assert (mine.length, mine.won, mine.rewards) == (expected.length, expected.won, expected.rewards)
    assert mine.scenes == expected.scenes
    assert mine.details.encode() == expected.details.encode()
    assert player.describe() == {"label": "game: trained team", "tasks": ["group_matching"]}


def test_random_actions_depend_on_the_seed_only(monkeypatch):
    player = Player(environment.make("group_matching", agents=3, cells=4, horizon=5).core, "game")
    one, same, other = (player.play("group_matching", seed) for seed in (0, 0, 1))
    assert one.scenes == same.scenes != other.scenes
    assert one.details is None
    with pytest.raises(RefilError, match="unknown task 'x' of game; available: group_matching"):
        player.play("x", 0)

    def scene(env, state):
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(group_matching.GroupMatching, "scene", scene)
    with pytest.raises(RefilError, match=r"game: an episode failed at .*test_episodes.py:\d+ in scene\(\): ZeroDivision"):
        player.play("group_matching", 0)
