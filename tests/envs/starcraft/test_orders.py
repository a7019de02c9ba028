"""What agents may choose, and what their units make of it."""

import jax.numpy as jnp
import numpy as np
import pytest

from refil.envs.starcraft import observe, orders
from tests.envs.starcraft import scenes
from tests.envs.starcraft.scenes import game, world


def available(now, arena):
    return np.asarray(orders.available(now, arena.table[now.kind], arena))


@pytest.mark.parametrize("unit", ["zealot", "stalker", "marine", "colossus"])
def test_targets_are_offered_up_to_six_away_whatever_the_weapon(unit):  # T15
    arena = game(1, 3)
    now = world([(unit, 10, 16), ("zealot", 16, 16), ("zealot", 10, 22.001)], arena)
    assert available(now, arena)[0, 6:8].tolist() == [True, False]


def test_sight_reaches_nine():  # T15
    arena = game(1, 3)
    now = world([("zealot", 10, 16), ("zealot", 19, 16), ("zealot", 10, 25.001)], arena)
    assert observe.visible(now, arena).tolist() == [[True, True, False]]


def test_the_dead_may_do_nothing_and_are_no_target():
    arena = game(2, 3)
    now = world([("zealot", 10, 16), ("zealot", 11, 16), ("zealot", 12, 16)], arena, health=[0, 100, 0])
    offered = available(now, arena)
    assert offered[0].tolist() == [True] + [False] * (len(offered[0]) - 1)
    assert not offered[1, 6:].any()
    assert not offered[1, 0]
    assert observe.visible(now, arena).tolist() == [[True, False, False], [False, True, False]]


def test_northern_and_eastern_borders_forbid_walking_and_the_others_do_not():
    arena = game(2, 2)
    now = world([("zealot", 31.2, 31.2), ("zealot", 0.4, 0.4)], arena)
    assert available(now, arena)[:, 2:6].tolist() == [[False, True, False, True], [True, True, True, True]]


def test_healers_are_offered_walking_friends_others_enemies():
    arena = game(4, 5)
    units = [("medivac", 10, 16), ("marine", 11, 18), ("medivac", 13, 16), ("marine", 10, 25), ("marine", 12, 16)]
    now = world(units, arena)
    offered = available(now, arena)[:, 6:]
    owners = orders.tag_owner(now, arena).tolist()
    assert [owners[tag] for tag in np.flatnonzero(offered[0])] == [1]
    assert [owners[tag] for tag in np.flatnonzero(offered[1])] == [4]


def test_an_order_that_cannot_be_carried_out_is_refused_and_the_old_one_holds():  # T16
    arena = game(1, 2)
    now = world([("marauder", 10, 16), ("medivac", 11.5, 16)], arena)
    attack = jnp.array([orders.FIRST_TARGET])
    assert bool(available(now, arena)[0, orders.FIRST_TARGET])
    traits = arena.table[now.kind]
    now = orders.give(now, jnp.array([orders.NORTH]), traits, arena)
    for _ in range(20):
        now = orders.give(now, attack, traits, arena)
        now = scenes.after(now, arena, 8)[-1]
    assert float(now.health[1]) == 150
    assert float(now.cooldown[0]) == 0
    assert float(now.y[0]) == pytest.approx(18.0, abs=1e-3)  # it walked on north to where that order ended


def test_moves_go_two_cells_in_their_direction():
    arena = game(1, 1)
    now = world([("zealot", 10, 16)], arena)
    for action, (x, y) in enumerate([(10, 18), (10, 14), (12, 16), (8, 16)], start=orders.NORTH):
        ordered = orders.give(now, jnp.array([action]), arena.table[now.kind], arena)
        assert (float(ordered.goal_x[0]), float(ordered.goal_y[0]), bool(ordered.going[0])) == (x, y, True)
    assert not orders.give(now, jnp.array([orders.STOP]), arena.table[now.kind], arena).going.any()


def test_the_action_for_a_unit_harms_or_mends_that_unit_and_no_other():
    arena = game(4, 6)
    allies = [("marine", 12, 16), ("medivac", 10, 16), ("marine", 10, 18), ("marauder", 10, 14)]
    enemies = [("zealot", 14, 16), ("zealot", 14, 18)]
    now = world([*allies, *enemies], arena, tag=[4, 2, 5, 3, 1, 0], health=[20, 150, 30, 60, 100, 100])
    aims = observe.observe(now, arena).targeting_action.tolist()
    assert aims == [10, 8, 11, 9, 7, 6]
    for agent, unit in ((0, 4), (0, 5), (1, 0), (1, 2), (1, 3), (3, 4), (3, 5)):
        given = jnp.full(4, orders.STOP).at[agent].set(aims[unit])
        later = scenes.after(orders.give(now, given, arena.table[now.kind], arena), arena, 8)[-1]
        change = np.asarray(later.health + later.shield - now.health - now.shield)
        assert np.flatnonzero(change).tolist() == [unit]
        assert change[unit] > 0 if agent == 1 else change[unit] < 0
