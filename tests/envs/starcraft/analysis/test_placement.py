"""Placements: slots, tags, first states and actions; tests/cli/test_battle.py covers their errors."""

import json
import os

import jax
import pytest

from refil.envs.starcraft import orders
from refil.envs.starcraft.analysis import placement
from refil.envs.starcraft.config import Config
from refil.errors import RefilError

ENEMY = {"team": "enemy", "type": "zealot", "x": 14.0, "y": 16.0}
MARINE = {"team": "ally", "type": "marine", "x": 10.0, "y": 16.0, "health": 20, "cooldown": 3}
MEDIVAC = {"team": "ally", "type": "medivac", "x": 10.0, "y": 18.0, "energy": 7.5}


def test_allies_have_the_first_slots_and_enemies_the_first_tags():
    placed = placement.place([ENEMY, MARINE, MEDIVAC], Config())
    assert placed.slots == [2, 0, 1]
    assert (placed.env.game.num_allies, placed.env.game.num_units) == (2, 3)
    assert placed.state.tag.tolist() == [1, 2, 0]
    assert placed.state.x.tolist() == [10, 10, 14]


def test_given_numbers_replace_those_of_an_undamaged_unit():
    state = placement.place([ENEMY, MARINE, MEDIVAC], Config()).state
    assert state.health.tolist() == [20, 150, 100]
    assert state.shield.tolist() == [0, 0, 50]
    assert state.energy.tolist() == [0, 7.5, 0]
    assert state.cooldown.tolist() == [3, 0, 0]


def test_only_the_enemy_attack_moves():
    state = placement.place([ENEMY, MARINE, MEDIVAC], Config()).state
    assert state.attack_moving.tolist() == [False, False, True]
    assert (float(state.goal_x[2]), float(state.goal_y[2])) == (10, 17)


def test_targets_are_numbers_of_units_in_the_file():
    actions = [["target 0", "target 1"], ["stop", "west"]]
    placed = placement.place([ENEMY, MARINE, MEDIVAC], Config(), actions)
    attack_enemy, heal_marine = orders.FIRST_TARGET + 0, orders.FIRST_TARGET + 1
    assert placed.actions.tolist() == [[attack_enemy, heal_marine], [orders.STOP, orders.WEST]]
    ordered = placed.orders(placed.env, placed.state, jax.random.key(0))
    assert ordered.target[:2].tolist() == [2, 0]


def test_a_placement_is_read_from_a_file(tmp_path):
    path = tmp_path / "placement.json"
    path.write_text(json.dumps({"units": [MARINE, ENEMY]}))
    placed = placement.read(path, Config(limit=7))
    assert placed.actions is None
    assert placed.env.limit == 7


def test_units_may_touch_but_not_overlap():
    near = ENEMY | {"x": 10.75}  # both bodies have a radius of 0.375
    assert placement.place([MARINE, near], Config()).slots == [0, 1]
    with pytest.raises(RefilError, match=r"units 0 and 1 overlap: their distance is 0.700 and must be at least 0.750"):
        placement.place([MARINE, near | {"x": 10.7}], Config())


def test_a_placement_that_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(RefilError, match=r"cannot read .*fifo: it is not a regular file"):
        placement.read(tmp_path / "fifo", Config())
