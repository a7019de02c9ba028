"""Observations: entity features worked out by hand, and visibility."""

import numpy as np
import pytest

from refil import plugins
from refil.envs.starcraft import observe
from tests.envs.starcraft.scenes import game, place


def observed(units, allies, **given):
    arena = game(allies, len(units))
    obs = observe.observe(place(units, arena, **given), arena)
    names = observe.feature_names(arena)
    return obs, [dict(zip(names, np.asarray(row).tolist(), strict=True)) for row in obs.entities]


def test_features_are_fractions_of_the_maximum_and_positions_relative_to_map_and_mean():
    units = [("marine", 12, 16), ("stalker", 20, 16)]
    _, (ally, enemy) = observed(units, 1, health=[9, 20], shield=[0, 40], cooldown=[3, 35])
    assert ally["health"] == pytest.approx(9 / 45)
    assert ally["cooldown"] == pytest.approx(3 / 15)
    assert (ally["x from map center"], ally["y from map center"]) == pytest.approx((-4 / 32, 0))
    assert (ally["x from mean unit"], enemy["x from mean unit"]) == pytest.approx((-1, 1))
    assert (enemy["health"], enemy["shield"]) == pytest.approx((0.25, 0.5))
    assert enemy["cooldown"] == 0  # hidden


def test_tags_and_types_are_one_hot():
    _, (ally, enemy) = observed([("marine", 12, 16), ("stalker", 20, 16)], 1)
    assert [name for name, value in ally.items() if value == 1 and not name.startswith("can")] == [
        "tag 1",
        "is marine",
        "health",
    ]
    assert (enemy["tag 0"], enemy["is stalker"], enemy["is marine"]) == (1, 1, 0)


def test_available_actions_are_features_of_agents_only():
    obs, (ally, enemy) = observed([("marine", 12, 16), ("stalker", 16, 16)], 1)
    assert obs.available[0].tolist() == [False, True, True, True, True, True, True, False]
    assert (ally["can north"], ally["can target 0"], ally["can target 1"]) == (1, 1, 0)
    assert not any(value for name, value in enemy.items() if name.startswith("can"))


def test_dead_units_keep_only_tag_and_type():
    obs, (ally, _) = observed([("marine", 12, 16), ("marine", 14, 16)], 1, health=[0, 45])
    assert [name for name, value in ally.items() if value] == ["tag 1", "is marine"]
    assert (obs.present.tolist(), obs.alive.tolist()) == ([True, True], [False, True])
    assert obs.visible.tolist() == [[True, False]]


def test_units_see_nine_cells_far_whatever_their_team():
    obs, _ = observed([("marine", 10, 16), ("marine", 19, 16), ("marine", 10, 25.01)], 2)
    assert obs.visible.tolist() == [[True, True, False], [True, True, False]]


@pytest.mark.parametrize("name", ["3-8sz", "3-8MMM", "2c_vs_64zg"])
def test_features_and_actions_have_names(name):
    module = plugins.load("refil.envs", name)
    env = module.build(module.Config())
    assert (len(env.feature_names), len(env.action_names)) == (env.spec.features, env.spec.actions)
    assert len(set(env.feature_names)) == env.spec.features
    assert env.action_names[:7] == ("no-op", "stop", "north", "south", "east", "west", "target 0")
