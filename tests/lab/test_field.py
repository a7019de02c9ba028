"""Slots, first states and programs of a field."""

import pytest

from refil.envs.starcraft.analysis import placement
from refil.envs.starcraft.config import Config
from refil.errors import RefilError
from refil.lab import field
from tests.lab.conftest import line


def test_units_get_the_slots_of_their_side_in_the_order_of_the_file(situation):
    mixed = field.parse([situation[3], situation[0], situation[4], situation[1]])
    assert field.slots_of(mixed, 12) == [12, 0, 13, 1]
    state = field.first_state(mixed, 12)
    assert state.x[:3].tolist() == [13, 13, 0]
    assert state.tag[:3].tolist() == [12, 13, -1]
    assert state.tag[12:15].tolist() == [0, 1, -1]
    assert state.health[:3].tolist() == [80, 100, 0]


def test_given_numbers_replace_those_of_an_undamaged_unit(situation):
    situation[0] |= {"health": 20, "shield": 0, "cooldown": 3}
    state = field.first_state(field.parse(situation), 12)
    assert (float(state.health[0]), float(state.shield[0]), float(state.cooldown[0])) == (20, 0, 3)


def test_random_numbers_are_those_of_a_battle_without_empty_slots(units):
    numbers = field.jitter_numbers(units, 12)
    assert numbers[:3].tolist() == [0, 1, 2]
    assert numbers[12:15].tolist() == [3, 4, 5]


def test_rewards_are_scaled_as_in_a_placement(situation, units):
    assert field.reward_divisor(units) == placement.place(situation, Config()).env.reward_divisor


def test_the_smallest_field_that_suffices_is_used():
    assert [field.size_for(count) for count in (1, 12, 13, 33, 64)] == [12, 12, 32, 64, 64]


@pytest.mark.parametrize(
    ("units", "text"),
    [
        ([], "there are no allies; place at least one unit on each side"),
        (line("ally", "marine", 9.0), "there are no enemies"),
        (line("ally", "dragoon", 9.0), "unknown type 'dragoon'; available: baneling"),
        (line("ally", "marine", 9.0) + line("enemy", "marine", 9.2), "units 0 and 1 overlap"),
        (line("ally", "marine", 40.0), "is not on the map"),
        ([{"team": "ally"}], "needs team, type, x and y"),
    ],
)
def test_impossible_units_are_refused_in_a_sentence(units, text):
    with pytest.raises(RefilError, match=text):
        field.parse(units)


def test_too_many_units_on_one_side_are_refused():
    crowd = [{"team": "ally", "type": "medivac", "x": 1 + 0.4 * number, "y": 4.0} for number in range(65)]
    crowd = [unit | {"y": 4.0 + 2 * (number % 5)} for number, unit in enumerate(crowd)]
    with pytest.raises(RefilError, match="65 allies are too many; the lab has room for 64 on each side"):
        field.parse([*crowd, {"team": "enemy", "type": "zealot", "x": 30, "y": 30}])
