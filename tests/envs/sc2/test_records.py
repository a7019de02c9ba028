"""Records: the identifiers of the game."""

import pytest

from refil import plugins
from refil.envs.sc2 import records
from refil.errors import RefilError


def test_passive_copies_are_numbered_in_alphabetical_order():
    assert list(records.PASSIVE_IDS) == sorted(records.PASSIVE_IDS)
    assert list(records.PASSIVE_IDS.values()) == list(range(1935, 1944))
    assert set(records.PASSIVE_IDS) < set(plugins.names("refil.envs.starcraft.sim.units"))


@pytest.mark.parametrize("name", ["GameCrashedError", "GameTimeoutError", "GameRefusedError", "GameEndedError"])
def test_game_failures_and_user_errors_have_different_types(name):
    error = getattr(records, name)
    assert issubclass(error, records.GameError)
    assert issubclass(error, RefilError)
    assert not issubclass(error, records.InstallError)
