"""Several games at once: one thread, and one process of the game, for each."""

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from refil.envs.sc2.records import Game, MapInfo

Launch = Callable[[int], Game]  # returns the game of a number, which need not run yet
T = TypeVar("T")
MAX_THREADS = 1024  # threads are started only when all others are busy


class Games:
    """Games that are launched when they are needed for the first time, and closed at the latest when Python ends."""

    def __init__(self, launch: Launch, capacity: int) -> None:
        self.launch, self.capacity = launch, capacity
        self._games: list[Game] = []
        self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="game")
        weakref.finalize(self, _close, self._games, self._threads)

    def __getitem__(self, number: int) -> Game:
        return self._games[number]

    def missing(self, count: int) -> int:
        """Return how many more games are needed."""
        return max(0, count - len(self._games))

    def start(self, count: int) -> list[MapInfo]:
        """Launch games until there are this many, in parallel; return the maps of those launched now."""
        fresh = [self.launch(number) for number in range(len(self._games), count)]
        self._games += fresh
        return list(self.map(lambda game: game.start(), fresh))

    def map(self, function: Callable[..., T], *arguments: Sequence) -> Iterator[T]:
        """Call a function with each of the arguments in a thread of its own; return the results in their order."""
        return self._threads.map(function, *arguments)

    def close(self) -> None:
        """End all games; they are launched again when they are needed."""
        _close_all(self._games)


def _close(games: list[Game], threads: ThreadPoolExecutor) -> None:
    threads.shutdown(wait=False, cancel_futures=True)
    _close_all(games)


def _close_all(games: list[Game]) -> None:
    for game in games:
        with contextlib.suppress(Exception):
            game.close()
    games.clear()
