"""Actions: which ones are available, and the orders they give."""

import jax.numpy as jnp
import numpy as np
import pytest

from refil.envs.starcraft import observe, orders
from tests.envs.starcraft import scenes
from tests.envs.starcraft.scenes import game, place


def available(now, arena):
    return np.asarray(orders.available_actions(now, arena.table[now.unit_type], arena))


@pytest.mark.parametrize("unit", ["zealot", "stalker", "marine", "colossus"])
def test_units_up_to_six_cells_away_are_available_targets_whatever_the_weapon(unit):
    arena = game(1, 3)
    now = place([(unit, 10, 16), ("zealot", 16, 16), ("zealot", 10, 22.001)], arena)
    assert available(now, arena)[0, 6:8].tolist() == [True, False]


def test_the_sight_range_is_nine():
    arena = game(1, 3)
    now = place([("zealot", 10, 16), ("zealot", 19, 16), ("zealot", 10, 25.001)], arena)
    assert observe.visible(now, arena).tolist() == [[True, True, False]]


def test_dead_units_can_only_choose_no_op_and_are_not_targets():
    arena = game(2, 3)
    now = place([("zealot", 10, 16), ("zealot", 11, 16), ("zealot", 12, 16)], arena, health=[0, 100, 0])
    allowed = available(now, arena)
    assert allowed[0].tolist() == [True] + [False] * (len(allowed[0]) - 1)
    assert not allowed[1, 6:].any()
    assert not allowed[1, 0]
    assert observe.visible(now, arena).tolist() == [[True, False, False], [False, True, False]]


def test_only_the_northern_and_eastern_edges_forbid_moves():
    arena = game(2, 2)
    now = place([("zealot", 31.2, 31.2), ("zealot", 0.4, 0.4)], arena)
    assert available(now, arena)[:, 2:6].tolist() == [[False, True, False, True], [True, True, True, True]]


def test_healers_can_target_allies_on_the_ground_and_others_enemies():
    arena = game(4, 5)
    units = [("medivac", 10, 16), ("marine", 11, 18), ("medivac", 13, 16), ("marine", 10, 25), ("marine", 12, 16)]
    now = place(units, arena)
    allowed = available(now, arena)[:, 6:]
    slots = orders.slot_of_tag(now, arena).tolist()
    assert [slots[tag] for tag in np.flatnonzero(allowed[0])] == [1]
    assert [slots[tag] for tag in np.flatnonzero(allowed[1])] == [4]


def test_an_invalid_order_is_ignored_and_the_last_one_stays():
    arena = game(1, 2)
    now = place([("marauder", 10, 16), ("medivac", 11.5, 16)], arena)
    attack = jnp.array([orders.FIRST_TARGET])
    assert bool(available(now, arena)[0, orders.FIRST_TARGET])
    stats = arena.table[now.unit_type]
    now = orders.apply_actions(now, jnp.array([orders.NORTH]), stats, arena)
    for _ in range(20):
        now = orders.apply_actions(now, attack, stats, arena)
        now = scenes.after(now, arena, 8)[-1]
    assert float(now.health[1]) == 150
    assert float(now.cooldown[0]) == 0
    assert float(now.y[0]) == pytest.approx(18.0, abs=1e-3)  # it walked north to the goal of the last order


def test_moves_have_a_goal_two_cells_away():
    arena = game(1, 1)
    now = place([("zealot", 10, 16)], arena)
    for action, (x, y) in enumerate([(10, 18), (10, 14), (12, 16), (8, 16)], start=orders.NORTH):
        ordered = orders.apply_actions(now, jnp.array([action]), arena.table[now.unit_type], arena)
        assert (float(ordered.goal_x[0]), float(ordered.goal_y[0]), bool(ordered.moving[0])) == (x, y, True)
    assert not orders.apply_actions(now, jnp.array([orders.STOP]), arena.table[now.unit_type], arena).moving.any()


def test_a_target_action_damages_or_heals_only_its_target():
    arena = game(4, 6)
    allies = [("marine", 12, 16), ("medivac", 10, 16), ("marine", 10, 18), ("marauder", 10, 14)]
    enemies = [("zealot", 14, 16), ("zealot", 14, 18)]
    now = place([*allies, *enemies], arena, tag=[4, 2, 5, 3, 1, 0], health=[20, 150, 30, 60, 100, 100])
    actions = observe.observe(now, arena).targeting_action.tolist()
    assert actions == [10, 8, 11, 9, 7, 6]
    for agent, unit in ((0, 4), (0, 5), (1, 0), (1, 2), (1, 3), (3, 4), (3, 5)):
        given = jnp.full(4, orders.STOP).at[agent].set(actions[unit])
        later = scenes.after(orders.apply_actions(now, given, arena.table[now.unit_type], arena), arena, 8)[-1]
        change = np.asarray(later.health + later.shield - now.health - now.shield)
        assert np.flatnonzero(change).tolist() == [unit]
        assert change[unit] > 0 if agent == 1 else change[unit] < 0
