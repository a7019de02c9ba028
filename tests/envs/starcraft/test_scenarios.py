"""Scenarios: names of armies and tasks, and the tasks of the paper's sets."""

import pytest

from refil.envs import starcraft
from refil.envs.starcraft import scenarios
from refil.errors import RefilError


def test_army_names_are_parsed_and_written():
    army = scenarios.parse_army("3s5zg")
    assert army == {"s": 3, "zg": 5}
    assert scenarios.army_name(army) == "3s5zg"
    assert scenarios.parse_army("1m2m") == {"m": 3}


@pytest.mark.parametrize("name", ["", "sz", "3", "0s", "3s5"])
def test_other_names_are_not_armies(name):
    with pytest.raises(RefilError, match="is not an army"):
        scenarios.parse_army(name)


def test_a_task_of_one_army_is_mirrored():
    assert scenarios.parse_task("3s") == ({"s": 3}, {"s": 3})
    assert scenarios.parse_task("3s_vs_4z") == ({"s": 3}, {"z": 4})
    assert scenarios.task_name({"s": 3}, {"s": 3}) == "3s"
    assert scenarios.task_name({"s": 3}, {"z": 4}) == "3s_vs_4z"


def test_mixed_armies_are_all_combinations_with_up_to_two_support_units():
    names = [scenarios.task_name(*pair) for pair in scenarios.mixed("sz", 1, 2, support="c")]
    assert names == [f"{army}{support}" for army in ("1s", "1z", "2s", "1s1z", "2z") for support in ("", "1c", "2c")]


def test_outnumbered_allies_are_one_less_than_the_enemies():
    assert scenarios.outnumbered("m", 6, 7) == [({"m": 5}, {"m": 6}), ({"m": 6}, {"m": 7})]


# 3-8sz: 4 + 5 + ... + 9 = 39 armies; with support: (4 + 5 + 6 + 7) * 3 = 66.
@pytest.mark.parametrize(("name", "count"), [("3-8sz", 39), ("3-8csz", 66), ("3-8MMM", 66), ("3-8m", 6), ("3s5z", 1)])
def test_the_number_of_tasks(name, count):
    assert len(scenarios.SCENARIOS[name].tasks()) == count


def test_summaries_name_the_armies_and_the_limit():
    assert starcraft.summary("MMM2") == "StarCraft: 1v2M7m_vs_1v3M8m, 180 steps."
    assert starcraft.summary("3-8sz") == "StarCraft: 39 pairs of armies, 150 steps."
    varied = "StarCraft: 39 pairs of armies, whose health, damage, range and speed vary, 150 steps."
    assert starcraft.summary("3-8sz-varied") == varied


def test_any_two_armies_are_an_environment_and_other_names_are_not():
    assert starcraft.serve("1m_vs_1z") is not None
    assert starcraft.serve("group_matching") is None
