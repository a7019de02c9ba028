"""Which units can attack or heal which, and the targets of attack-moving units."""

import jax.numpy as jnp
import numpy as np
import pytest

from refil.envs.starcraft.sim import targeting
from tests.envs.starcraft.scenes import SMACLITE_EXACT, game, place


def stats(state, arena):
    return arena.table[state.unit_type]


def test_weapons_hit_the_planes_of_their_type_and_only_opponents():
    arena = game(3, 5)
    units = [("marine", 10, 16), ("zealot", 11, 16), ("medivac", 12, 16), ("medivac", 13, 16), ("colossus", 14, 16)]
    state = place(units, arena)
    mask = targeting.attackable(stats(state, arena).along(0), stats(state, arena).along(1), arena)
    expected = np.zeros((5, 5), bool)
    expected[0, 3:] = True  # Marines attack ground and air
    expected[1, 4] = True  # Zealots attack the ground, where a Colossus stands
    expected[4, :2] = True  # a Colossus attacks the ground
    np.testing.assert_array_equal(mask, expected)
    for target in range(5):
        chosen = targeting.can_attack(jnp.full(5, target), stats(state, arena), arena)
        np.testing.assert_array_equal(chosen, expected[:, target])


def test_medivacs_heal_biological_allies_but_not_themselves():
    arena = game(4, 5)
    units = [("medivac", 10, 16), ("marine", 11, 16), ("stalker", 12, 16), ("medivac", 13, 16), ("marine", 14, 16)]
    state = place(units, arena)
    mask = np.asarray(targeting.healable(stats(state, arena), arena))  # [other, unit]
    assert np.argwhere(mask).tolist() == [[1, 0], [1, 3]]
    can_heal = [bool(targeting.can_heal(jnp.full(5, target), stats(state, arena), arena)[0]) for target in range(-1, 5)]
    assert can_heal == [False, False, True, False, False, False]


def test_distances_are_measured_from_edge_to_edge():
    arena = game(1, 2)
    state = place([("zealot", 10, 16), ("colossus", 13, 20)], arena)  # 5 apart, radii 0.5 and 1
    x, y, edge = targeting.offset_to(jnp.array([1, 0]), state, stats(state, arena), arena)
    assert (x.tolist(), y.tolist(), edge.tolist()) == ([3, -3], [4, -4], [3.5, 3.5])
    assert targeting.edge_distances(state, stats(state, arena))[0, 1] == 3.5


@pytest.mark.parametrize(("x", "target"), [(15.74, 0), (15.76, -1)])
def test_enemies_notice_units_five_cells_away_from_edge_to_edge(x, target):
    arena = game(1, 2)  # a Marine's and a Zergling's radii add up to 0.75
    state = place([("marine", 10, 16), ("zergling", x, 16)], arena, attack_moving=[0, 1])
    assert targeting.retarget(state, stats(state, arena), arena).tolist() == [-1, target]


def test_the_nearest_unit_is_attacked_and_healers_first_only_with_smaclites_rules():
    units = [("marine", 13, 16), ("medivac", 12, 18), ("marine", 16, 16)]
    for rules, profile, target in (({}, "smac", 0), ({"rules": SMACLITE_EXACT}, "smaclite", 1)):
        arena = game(2, 3, profile=profile, **rules)
        state = place(units, arena, attack_moving=[0, 0, 1])
        assert int(targeting.retarget(state, stats(state, arena), arena)[2]) == target


def test_units_that_do_not_attack_move_keep_a_living_target():
    arena = game(2, 4)
    units = [("marine", 10, 16), ("marine", 10, 18), ("marine", 24, 16), ("marine", 12, 16)]
    state = place(units, arena, target=[2, 3, -1, -1], health=[45, 45, 45, 0])
    assert targeting.retarget(state, stats(state, arena), arena).tolist() == [2, -1, -1, -1]
