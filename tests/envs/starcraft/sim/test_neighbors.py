"""The units that are near, in a table with few rows."""

import jax.numpy as jnp
import numpy as np
import pytest

from refil.envs.starcraft.sim import neighbors


def flags(units, *near):
    """Return which units [other, unit] are near in one battle; all that are not given have nobody near."""
    values = np.zeros((units, units, 1), bool)
    for unit, others in near:
        values[others, unit] = True
    return jnp.asarray(values)


@pytest.mark.parametrize("units", [4, 32, 64])
def test_near_units_are_listed_in_ascending_order_and_then_the_unit_itself(units):
    last = units - 1
    others, fits = neighbors.nearest(flags(units, (0, [last, 2]), (last, [0, 1, 2])))
    assert fits
    assert others.slots.shape == (neighbors.ROWS, units, 1)
    assert others.slots[:, 0, 0].tolist() == [2, last, *[0] * (neighbors.ROWS - 2)]
    assert others.slots[:, last, 0].tolist() == [0, 1, 2, *[last] * (neighbors.ROWS - 3)]
    assert others.slots[:, 1, 0].tolist() == [1] * neighbors.ROWS


def test_a_full_table_fits_and_one_unit_more_does_not():
    full = list(range(1, 1 + neighbors.ROWS))
    others, fits = neighbors.nearest(flags(16, (0, full)))
    assert fits
    assert others.slots[:, 0, 0].tolist() == full
    assert not neighbors.nearest(flags(16, (0, [*full, 15])))[1]


def test_values_of_others_are_looked_up_for_all_or_for_those_that_are_near():
    values = jnp.array([[10.0], [11.0], [12.0], [13.0]])
    near, _ = neighbors.nearest(flags(4, (1, [0, 3])))
    assert near.of(values)[:3, 1, 0].tolist() == [10.0, 13.0, 11.0]
    everyone = neighbors.everyone(values)
    assert everyone.of(values)[:, 0, 0].tolist() == [10.0, 11.0, 12.0, 13.0]
    number = jnp.array([[2], [1], [0], [0]])
    assert near.slot(number)[1, 0] == 3
    assert everyone.slot(number).tolist() == number.tolist()


def test_units_reach_further_if_they_walk_or_can_be_pushed():
    length = jnp.array([[0.2], [0.0], [0.0]])
    distance, longest = neighbors.reach(length, jnp.array([[False], [True], [False]]), push_gap=0.05)
    assert longest.tolist() == [pytest.approx(0.2)]
    np.testing.assert_allclose(distance[:, 0], neighbors.MARGIN * np.array([0.6, 0.6, 0.2]), rtol=1e-6)
