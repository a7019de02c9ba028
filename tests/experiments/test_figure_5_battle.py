"""The highlighted battle, from positions made by hand."""

import numpy as np
import pytest

from refil.errors import RefilError
from refil.experiments import figure_5_battle
from refil.experiments.figure_5_battle import Frame

NOBODY = -1


def frame(target, x, alive=(True,) * 6) -> Frame:
    """Return two Zealots and a Colossus against the same, in a row."""
    zealot = np.array([True, True, False] * 2)
    return Frame(zealot, np.array(alive), np.array(target), np.array(x, float), np.zeros(6))


FIGHT = frame([3, NOBODY, 5, NOBODY, 1, 2], [1, 0, -10, 2, 1, 13])


def test_zealots_that_attack_or_are_attacked_by_zealots_nearby_form_the_group():
    assert figure_5_battle.zealot_fight(FIGHT, 3).tolist() == [0, 1, 3, 4]
    far = frame([3, NOBODY, 5, NOBODY, 1, 2], [1, 0, -10, 20, 1, 13])
    assert figure_5_battle.zealot_fight(far, 3).tolist() == [1, 4]
    dead = frame([3, NOBODY, 5, NOBODY, 1, 2], [1, 0, -10, 2, 1, 13], [True, False, True, True, True, True])
    assert figure_5_battle.zealot_fight(dead, 3).tolist() == [0, 3]
    allies = frame([1, 0, NOBODY, NOBODY, NOBODY, NOBODY], [1, 0, -10, 2, 1, 13])
    assert not figure_5_battle.zealot_fight(allies, 3).size


def test_larger_groups_further_from_the_others_are_clearer():
    assert figure_5_battle.clearness(FIGHT, 3) == pytest.approx(2 + 10 / 10)
    near = frame([3, NOBODY, 5, NOBODY, 1, 2], [1, 0, -2, 2, 1, 13])
    assert figure_5_battle.clearness(near, 3) == pytest.approx(2 + 2 / 10)
    assert figure_5_battle.clearness(frame([NOBODY] * 6, range(6)), 3) == 0


def test_the_clearest_timestep_of_a_won_battle_is_chosen():
    none, one = frame([NOBODY] * 6, range(6)), frame([3] + [NOBODY] * 5, [1, 5, -10, 2, 6, 13])
    assert figure_5_battle.best([[none, one], [one, FIGHT, none], [FIGHT]], [True, True, False], 3) == (1, 1)
    with pytest.raises(RefilError, match="no battle of 3s3z2c was won with Zealots fighting Zealots"):
        figure_5_battle.best([[none], [FIGHT]], [True, False], 3)


def test_the_team_has_the_papers_10_million_steps():
    (run,) = figure_5_battle.runs().values()
    assert (run.env.name, run.method.name, run.train.steps) == ("3-8csz", "refil", 10_000_000)
