"""Games in parallel: launched, replaced when they fail, and closed."""

import gc
import threading

import numpy as np

from refil.envs.sc2.games import Games
from refil.envs.sc2.records import MapInfo, no_orders


class Game:
    def __init__(self, number):
        self.number, self.closed = number, 0

    def start(self):
        grid = np.zeros((1, 1))
        return MapInfo(f"version {self.number}", 0, (0, 0, 32, 32), grid > 0, grid.astype(np.float32))

    def reset(self, placements, orders=no_orders):
        raise NotImplementedError

    def step(self, commands, ticks):
        raise NotImplementedError

    def close(self):
        self.closed += 1


def test_games_are_launched_when_they_are_needed():
    games = Games(Game, capacity=8)
    assert [info.version for info in games.start(2)] == ["version 0", "version 1"]
    assert games.start(1) == []
    assert [info.version for info in games.start(3)] == ["version 2"]
    assert games[2].number == 2


def test_games_work_at_the_same_time():
    games, barrier = Games(Game, capacity=3), threading.Barrier(3)
    assert sorted(games.map(lambda number: barrier.wait(20.0), range(3))) == [0, 1, 2]


def test_games_are_closed_with_their_owner_and_on_demand():
    made = []
    games = Games(lambda number: made.append(Game(number)) or made[-1], capacity=2)
    games.start(2)
    games.close()
    assert [game.closed for game in made] == [1, 1]
    games.start(1)
    del games
    gc.collect()
    assert [game.closed for game in made] == [1, 1, 1]
