"""Drawings of battles."""

import math

import pytest

from refil.envs.starcraft import scene as drawings
from tests.envs.starcraft import scenes

GAME = scenes.game(2, 3)
UNITS = [("marine", 10.0, 16.0), ("medivac", 8.0, 16.0), ("stalker", 10.0, 13.0)]


def drawn(**given):
    return drawings.scene(scenes.place(UNITS, GAME, **given), GAME)


def test_living_units_are_bodies_with_bars_and_the_dead_are_gone():
    scene = drawn(health=[22.5, 150.0, 0.0])
    marine, medivac = scene.circles
    assert (marine.name, marine.kind, marine.label) == ("ally 0", "Marine, ally, tag 1", "m")
    assert (marine.x, marine.y, marine.color) == (10.0, 16.0, drawings.ALLY)
    assert marine.bars == ((0.5, drawings.HEALTH),)
    assert [color for _, color in medivac.bars] == [drawings.HEALTH, drawings.ENERGY]


def test_units_face_their_targets_and_attacks_are_lines():
    scene = drawn(target=[2, -1, -1], cooldown=[100.0, 0.0, 0.0])
    marine = scene.circles[0]
    assert marine.facing == pytest.approx(-math.pi / 2)
    assert [(line.to_x, line.to_y, line.color) for line in scene.lines] == [(10.0, 13.0, drawings.ATTACK)]
    assert not drawn(target=[2, -1, -1]).lines  # its weapon has not fired


def test_orders_say_whom_a_unit_attacks_or_heals_and_where_it_walks():
    scene = drawn(target=[2, 0, -1])
    assert [circle.verb for circle in scene.circles] == ["attack", "heal", "attack"]
    assert [circle.order for circle in scene.circles] == ["attack enemy 2", "heal ally 0", "stand"]
    walking = {"moving": [True] * 3, "goal_x": [12.0, 8.0, 8.0], "goal_y": [18.0, 10.0, 13.0]}
    scene = drawn(**walking, attack_moving=[False, False, True])
    assert [circle.order for circle in scene.circles] == ["move north-east", "move south", "attack-move west"]


def test_levels_are_the_health_and_shield_that_each_side_has_left():
    """The Marine has 45 and the Medivac 150 of health, the Stalker 80 of each."""
    levels = drawn(health=[45.0, 52.5, 40.0], shield=[0.0, 0.0, 0.0]).levels
    assert [level.value for level in levels] == pytest.approx([0.5, 0.25])


def test_the_legend_has_every_unit_type_once():
    texts = [entry.text for entry in drawn().legend]
    assert texts[:2] == ["allies, the team", "enemies"]
    assert {"Marine (m)", "Medivac (v)", "Stalker (s)", "health", "shield", "energy", "healing", "attack"} <= set(texts)
