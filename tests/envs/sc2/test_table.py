"""The unit types of a game as a table of the simulator."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.envs.sc2 import table
from refil.envs.sc2.records import ALLY, ENEMY, GameRefusedError, Units
from refil.envs.starcraft import env as starcraft
from refil.envs.starcraft import scenarios, spawn
from refil.envs.starcraft.config import Config
from refil.envs.starcraft.sim.state import ARENAS
from refil.errors import RefilError

ENV = starcraft.build(scenarios.custom("1z2s_vs_1z1s"), Config())
GAME = ENV.game
ZEALOT, STALKER = 0, 1


def first_state():
    unit_type = np.array([STALKER, STALKER, ZEALOT, ZEALOT, STALKER], np.int8)  # allies by name, enemies by type ID
    tags = np.array([4, 2, 3, 1, 0], np.int16)
    x = np.array([9.0, 9.0, 9.0, 23.0, 23.0], np.float32)
    arrays = map(jnp.asarray, (unit_type, x, np.full(5, 16.0, np.float32), tags))
    state = spawn.idle_state(*arrays, GAME)
    return jax.tree.map(np.asarray, state)


def units(rows) -> Units:
    """Return a unit table of (tag, type_id, owner, x, y, health, shield)."""
    tag, type_id, owner, x, y, health, shield = (np.array(column) for column in zip(*rows, strict=True))
    floats = {name: values.astype(np.float32) for name, values in {"x": x, "y": y, "health": health, "shield": shield}.items()}
    zeros = np.zeros(len(rows), np.float32)
    others = dict.fromkeys(("energy", "radius", "health_max", "shield_max"), zeros)
    cooldown = np.arange(len(rows)).astype(np.float32)
    return Units(
        tag=tag.astype(np.uint64),
        type_id=type_id,
        owner=owner,
        cooldown=cooldown,
        flying=np.zeros(len(rows), bool),
        tick=8,
        **floats,
        **others,
    )


ROWS = [
    (50, 73, ENEMY, 23.5, 16.0, 100, 50),
    (10, 1941, ALLY, 9.6, 15.0, 80, 80),
    (20, 1941, ALLY, 8.4, 17.0, 80, 80),
    (30, 1942, ALLY, 9.0, 16.0, 100, 50),
    (40, 74, ENEMY, 23.0, 16.0, 80, 80),
]


def test_units_are_placed_with_the_types_of_the_map():
    x, y = np.arange(5.0), np.full(5, 2.0)
    placed = [(each.type_id, each.owner, each.x, each.y) for each in table.placements(first_state(), x, y, GAME)]
    assert placed == [(1941, ALLY, 0, 2), (1941, ALLY, 1, 2), (1942, ALLY, 2, 2), (73, ENEMY, 3, 2), (74, ENEMY, 4, 2)]


def test_the_map_has_no_allied_spine_crawlers():
    env = starcraft.build(scenarios.custom("1sc"), Config())
    with pytest.raises(RefilError, match="no spine_crawler for allies; available: baneling, colossus"):
        table.type_id(0, ALLY, env.game)


def test_units_of_a_type_and_team_have_its_slots_from_west_to_east():
    assert table.assign_slots(first_state(), units(ROWS), GAME).tolist() == [20, 10, 30, 50, 40]


def test_missing_units_are_an_error():
    with pytest.raises(GameRefusedError, match="1 units of type 1941 of player 1 instead of 2"):
        table.assign_slots(first_state(), units(ROWS[:2] + ROWS[3:]), GAME)


def test_dead_units_keep_the_position_where_they_were_last_seen():
    state = first_state()
    tags = table.assign_slots(state, units(ROWS), GAME)
    alive = table.read(state, units(ROWS), tags)
    np.testing.assert_allclose(alive.x, [8.4, 9.6, 9.0, 23.5, 23.0], rtol=1e-6)
    assert alive.health.tolist() == [80, 80, 100, 100, 80]
    assert alive.cooldown.tolist() == [2, 1, 3, 0, 4]
    moved = [(20, 1941, ALLY, 1.0, 2.0, 7, 0), (40, 74, ENEMY, 3.0, 4.0, 5, 6)]
    after = table.read(alive, units(moved), tags)
    np.testing.assert_allclose(after.x, [1.0, 9.6, 9.0, 23.5, 3.0], rtol=1e-6)
    assert after.health.tolist() == [7, 0, 0, 0, 5]
    assert after.shield.tolist() == [0, 0, 0, 0, 6]
    assert after.tag.tolist() == state.tag.tolist()
    assert after.unit_type.tolist() == state.unit_type.tolist()


def test_many_states_are_stacked_and_taken_apart():
    state = first_state()
    stacked = table.stack([state, table.with_fields(state, x=state.x + 1)])
    assert stacked.x.shape == (2, 5)
    np.testing.assert_array_equal(table.one(stacked, 1).x, state.x + 1)


def test_cells_that_are_blocked_in_the_map_are_found_within_the_arena():
    pathing = np.ones((32, 32), bool)
    assert table.blocked(pathing, ARENAS["any_angle"]) == []
    pathing[[3, 9], [2, 20]] = False
    assert table.blocked(pathing, ARENAS["any_angle"]) == [(3, 2), (9, 20)]
    assert table.blocked(pathing, ARENAS["strip"]) == [(9, 20)]
