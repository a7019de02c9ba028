"""Unit types in a table: the numbers of every slot."""

import jax.numpy as jnp
import numpy as np

from refil.envs.starcraft.sim.unit import AIR, GROUND, Shots, Unit, UnitTable, single_target

FIGHTER = Unit("f", 1, max_health=40.0, speed=0.2, radius=0.5, collision_radius=0.5, damage=6.0, attack_period=10.0)
HEALER = Unit("h", 2, max_health=60.0, speed=0.3, radius=0.75, collision_radius=0.75, plane=AIR, heal_rate=1.0)
TABLE = UnitTable(("fighter", "healer"), (FIGHTER, HEALER))


def test_every_slot_has_the_numbers_of_its_type_and_empty_ones_have_zeros():
    stats = TABLE[jnp.array([1, 0, -1, 1])]
    np.testing.assert_array_equal(stats.max_health, [60, 40, 0, 60])
    np.testing.assert_array_equal(stats.plane, [AIR, GROUND, 0, AIR])
    np.testing.assert_array_equal(stats.armed, [False, True, False, False])
    np.testing.assert_array_equal(stats.heals, [True, False, False, True])
    assert stats.plane.dtype == jnp.int32
    assert stats.radius.dtype == jnp.float32


def test_stats_of_batches_keep_their_axes():
    stats = TABLE[jnp.array([[0, 1, -1], [1, 1, 0]])]  # two slots of three battles
    np.testing.assert_array_equal(stats.max_health, [[40, 60, 0], [60, 60, 40]])


def test_pairs_have_the_first_units_along_one_axis_and_the_second_along_the_other():
    stats = TABLE[jnp.array([0, 1])]
    difference = stats.along(0).max_health - stats.along(1).max_health
    np.testing.assert_array_equal(difference, [[0, -20], [20, 0]])


def test_a_table_knows_which_numbers_and_effects_its_types_have():
    assert TABLE.any("heal_rate")
    assert not TABLE.any("armor")
    assert TABLE.effects == {single_target: [0, 1]}
    assert UnitTable(("healer",), (HEALER,)).effects == {}  # it has no weapon


def test_an_attack_damages_its_target_unless_the_type_says_otherwise():
    offsets = jnp.zeros((3, 3))
    shots = Shots(jnp.array([2, -1, 0]), *jnp.zeros((2, 3)), offsets, offsets, jnp.ones(3), jnp.ones((3, 3), bool))
    np.testing.assert_array_equal(single_target(shots), [[False, False, True], [False] * 3, [True, False, False]])
