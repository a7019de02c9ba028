"""Initial states: positions, tags and the enemy's order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.envs.starcraft import env, scenarios, spawn
from refil.envs.starcraft.config import Config
from refil.envs.starcraft.sim.state import ARENAS
from tests.envs.starcraft.scenes import game, place


def test_units_of_an_idle_state_are_undamaged_and_have_no_orders():
    state = place([("zealot", 10, 16), ("medivac", 12, 16)], game(1, 2))
    assert state.health.tolist() == [100, 150]
    assert state.shield.tolist() == [50, 0]
    assert state.energy.tolist() == [0, 50]
    assert state.target.tolist() == [-1, -1]
    assert not (state.moving | state.attack_moving).any()
    assert (state.goal_x.tolist(), state.goal_y.tolist()) == ([10, 12], [16, 16])


def test_the_enemy_attack_moves_to_the_mean_position_of_the_allies():
    arena = game(2, 4)
    state = place([("zealot", 10, 16), ("zealot", 12, 20), ("zealot", 20, 16), ("zealot", 22, 16)], arena)
    ordered = spawn.attack_move(state, arena, arena.is_enemy)
    assert ordered.attack_moving.tolist() == ordered.moving.tolist() == [False, False, True, True]
    assert (ordered.goal_x[2:].tolist(), ordered.goal_y[2:].tolist()) == ([11, 11], [18, 18])
    assert ordered.goal_x[:2].tolist() == [10, 12]


@pytest.mark.parametrize(("x", "y", "on_map"), [(0.5, 16.0, True), (0.49, 16.0, False), (16.0, 8.5, True), (16.0, 24.0, False)])
def test_a_body_must_lie_within_the_walkable_part_of_the_map(x, y, on_map):
    assert spawn.is_on_map(x, y, 0.5, ARENAS["strip"]) == on_map


def test_single_units_spawn_seven_cells_west_and_east_of_the_center_on_classic_maps():
    built = env.build(scenarios.classic("1z", 150), Config())
    state = built.reset(built.tasks[0], jax.random.key(0))
    np.testing.assert_allclose(state.x, [9, 23], atol=1e-5)
    np.testing.assert_allclose(state.y, [16, 16], atol=1e-5)
    assert state.tag.tolist() == [1, 0]


def test_empty_slots_have_neither_a_tag_nor_health():
    built = env.build(scenarios.custom("2z"), Config())
    state = built.reset(jnp.array([0, -1, 0, 0], jnp.int8), jax.random.key(0))
    assert state.present.tolist() == [True, False, True, True]
    assert (int(state.tag[1]), float(state.health[1])) == (-1, 0)
