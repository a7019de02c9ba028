"""Units walk at the speed of their type and never through each other."""

import itertools
from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.envs.starcraft.sim import motion
from tests.envs.starcraft import scenes
from tests.envs.starcraft.scenes import after, game, place

STEP = 8  # ticks
STEP_LENGTHS = {
    "marine": 1.125,
    "marauder": 1.125,
    "zealot": 1.125,
    "colossus": 1.125,
    "hydralisk": 1.125,
    "stalker": 1.47655,
    "zergling": 1.47655,
    "baneling": 1.25,
    "medivac": 1.375,
    "spine_crawler": 0.0,
}


@pytest.mark.parametrize("unit", STEP_LENGTHS)
def test_a_free_step_has_the_length_of_the_unit_catalog(unit):
    arena = game(1, 1)
    now = place([(unit, 10, 16)], arena, moving=[1], goal_x=[10], goal_y=[18])
    later = after(now, arena, STEP)[-1]
    assert float(later.y[0]) - 16 == pytest.approx(STEP_LENGTHS[unit], abs=1e-5)
    assert float(later.x[0]) == 10


def test_a_medivac_accelerates():
    arena = game(1, 1, replace(scenes.EXACT, acceleration=True))
    now = place([("medivac", 10, 16)], arena, moving=[1], goal_x=[30], goal_y=[16])
    states = after(now, arena, 3 * STEP)
    assert 0.25 <= float(states[STEP - 1].x[0]) - 10 <= 0.33
    assert float(states[-1].x[0] - states[-2].x[0]) == pytest.approx(2.75 / 16, abs=1e-5)


def test_walking_units_stop_at_their_goal_and_at_the_edge_of_the_map():
    arena = game(2, 2)
    now = place([("zealot", 10, 16), ("zealot", 0.6, 5)], arena, moving=[1, 1], goal_x=[10.5, -2], goal_y=[16, 5])
    later = after(now, arena, STEP)[-1]
    assert scenes.positions(later).tolist() == pytest.approx(np.array([[10.5, 16], [0.375, 5]]), abs=1e-4)


@cache
def contact_distances(arena):
    return jax.jit(lambda now: motion.contact_distances(now, arena.table[now.unit_type]))


def overlaps(now, arena) -> np.ndarray:
    contact = np.asarray(contact_distances(arena)(now))
    place = scenes.positions(now)
    return np.maximum(contact - np.linalg.norm(place[:, None] - place[None], axis=-1), 0.0)


def overlap(now, arena) -> float:
    return float(overlaps(now, arena).max())


def total_overlap(now, arena) -> float:
    return float(overlaps(now, arena).sum())


def test_units_walk_around_enemies():
    arena = game(1, 4)
    wall = [("zealot", 12, 15.25), ("zealot", 12, 16), ("zealot", 12, 16.75)]
    now = place([("stalker", 10, 16), *wall], arena, moving=[1, 0, 0, 0], goal_x=[20] * 4, goal_y=[16] * 4)
    states = after(now, arena, 80)
    assert max(overlap(now, arena) for now in states) < 1e-4
    assert float(states[-1].x[0]) > 13
    assert (scenes.positions(states[-1])[1:] == scenes.positions(now)[1:]).all()


def test_an_idle_ally_gives_way_and_an_attacking_one_does_not():
    for target, moves in ((-1, True), (2, False)):
        arena = game(2, 3)
        units = [("zealot", 10, 16), ("zealot", 10.76, 16), ("zealot", 11.6, 16)]
        now = place(units, arena, moving=[1, 0, 0], target=[-1, target, -1], goal_x=[10, 0, 0], goal_y=[20, 0, 0])
        now = replace(now, goal_x=jnp.array([20.0, 0, 0]), goal_y=jnp.array([16.0, 0, 0]))
        position = scenes.positions(after(now, arena, 4)[-1])[1]
        assert (np.abs(position - [10.76, 16]).max() > 1e-3) == moves


def test_medivacs_and_colossi_pass_over_ground_units_but_not_over_each_other():
    arena = game(3, 3)
    units = [("medivac", 10, 16), ("zealot", 12, 16), ("colossus", 14, 16)]
    now = place(units, arena, moving=[1, 0, 0], goal_x=[20] * 3, goal_y=[16] * 3, attack_moving=[0, 0, 0], target=[-1, -1, -1])
    states = after(now, arena, 80)
    over_zealot = min(np.linalg.norm(np.subtract(*scenes.positions(now)[[0, 1]])) for now in states)
    past_colossus = min(np.linalg.norm(np.subtract(*scenes.positions(now)[[0, 2]])) for now in states)
    assert over_zealot < 0.2
    assert past_colossus >= 1.5 - 1e-4


def test_a_column_of_units_stays_together():
    arena = game(6, 6)
    units = [("zealot", 10 - 0.76 * number, 16) for number in range(6)]
    now = place(units, arena, moving=[1] * 6, goal_x=[30] * 6, goal_y=[16] * 6)
    later = after(now, arena, 40)[-1]
    assert float(later.x[0]) == pytest.approx(10 + 40 * 2.25 / 16, abs=1e-4)
    assert float(later.x[0] - later.x[5]) < 5 * 0.76 + 1.5


def test_overlapping_units_separate():
    arena = game(12, 12)
    for noise in (0.0, 0.01):  # the first one on a line
        random = np.random.default_rng(0)
        now = place([("zealot", 16 + 0.01 * number, 16 + noise * random.normal()) for number in range(12)], arena)
        states = [now, *after(now, arena, 60)]
        totals = [total_overlap(now, arena) for now in states]
        assert all(later < earlier for earlier, later in itertools.pairwise(totals) if earlier > 0.01)
        assert overlap(states[-1], arena) < 0.02


def test_dead_units_do_not_block():
    arena = game(1, 2)
    now = place(
        [("zealot", 10, 16), ("zealot", 12, 16)], arena, moving=[1, 0], goal_x=[20] * 2, goal_y=[16] * 2, health=[100, 0]
    )
    later = after(now, arena, 40)[-1]
    assert float(later.y[0]) == 16
    assert float(later.x[0]) == pytest.approx(10 + 40 * 2.25 / 16, abs=1e-4)
