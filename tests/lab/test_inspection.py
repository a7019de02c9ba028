"""What teams saw and expected, in the slots of the lab."""

import numpy as np

from refil import teams
from refil.lab import battle, inspection
from refil.lab.battle import Battle
from refil.lab.commanders import Scripted, Trained

ENGINE = Scripted("attack_move")


def test_details_of_both_sides_agree_with_the_battle(units):
    team = Trained(teams.load("3-8sz"))
    asked = Battle(units, team, team, 0)
    played = battle.play(asked)
    encoded = inspection.inspect(asked, played).encode()
    assert len(encoded["steps"]) == played.length
    assert encoded["every"] == 8
    for time in (0, played.length - 1):
        rows = encoded["steps"][time]
        for side, slot in ((0, 0), (1, 12)):
            if (row := rows[slot]) is None:
                continue
            action, target, q, seen = row
            assert action == played.actions[side][time][0] + side * 14  # 14 actions; those of enemies follow
            assert slot in [entity for entity, *_ in seen]  # it sees itself
            best = max(q, key=lambda choice: choice[1])
            assert best[0] == action
            assert encoded["actions"][action] == encoded["actions"][action - side * 14]
            assert target == -1 or (target >= 12) == (side == 0)
    assert sum(row is not None for row in encoded["steps"][0]) == 6
    assert np.shape(encoded["aimed"]) == (played.length, 48)
    assert encoded["aimed"][0][12] == 6  # the first enemy is target 0 of the allies
    assert encoded["aimed"][0][24] == 14 + 6  # and the first ally target 0 of the enemies


def test_battles_of_scripts_have_no_details(units):
    asked = Battle(units, ENGINE, ENGINE, 0)
    assert inspection.inspect(asked, battle.play(asked)) is None
