"""Faults that a peer can be told to have."""

import threading
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from refil.errors import RefilError

Kind = Literal["crash", "hang", "delay", "refuse", "end", "garbage"]
HOW = (
    "write KIND[:REQUEST[:COUNT[:GAME[:SECONDS]]]], such as crash:step:20 or delay:step:1:0:2.5, where KIND is one of "
    f"{', '.join(get_args(Kind))}, and GAME any or the number of a game"
)
ANY = "any"
DEFAULTS = ("", "step", "1", ANY, "1")

REQUESTS = ("ping", "create_game", "join_game", "game_info", "observation", "step", "action", "debug", "quit")


@dataclass(frozen=True)
class Fault:
    """A fault that happens once, at the n-th request of a kind in any game, or in the game of a number.

    crash closes the connection, hang never answers, delay answers later, refuse answers with an error, end ends the game, and
    garbage answers with bytes that are not the protocol.
    """

    kind: Kind
    request: str = "step"
    count: int = 1
    game: int | None = None  # games are numbered from 0 in the order in which they connect
    seconds: float = 1.0  # length of a delay


class Faults:
    """The faults that are still to come; threads share them."""

    def __init__(self, faults: tuple[Fault, ...] = ()) -> None:
        self._waiting = list(faults)
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        """Add a fault."""
        with self._lock:
            self._waiting.append(fault)

    def take(self, game: int, request: str, count: int) -> Fault | None:
        """Return, and forget, the fault that strikes at this request: the `count`-th of its kind in this game."""
        with self._lock:
            for fault in self._waiting:
                if fault.request == request and fault.count <= count and fault.game in (None, game):
                    self._waiting.remove(fault)
                    return fault
        return None


def parse(text: str) -> Fault:
    """Return the fault that `crash:step:20` describes, or with game 3 and seconds `delay:step:20:3:1.5`."""
    parts = text.split(":")
    try:
        if len(parts) > len(DEFAULTS):
            raise ValueError(f"it has more than {len(DEFAULTS)} parts")
        kind, request, count, game, seconds = (*parts, *DEFAULTS[len(parts) :])
        return checked(kind, request or DEFAULTS[1], int(count), None if game == ANY else int(game), float(seconds))
    except ValueError as error:
        raise RefilError(f"{text!r} is not a fault ({error}); {HOW}") from error


def checked(kind: Any, request: Any = "step", count: Any = 1, game: Any = None, seconds: Any = 1.0) -> Fault:
    """Return a fault; raise `ValueError` if it can never strike."""
    for name, value, choices in (("kind", kind, get_args(Kind)), ("request", request, REQUESTS)):
        if value not in choices:
            raise ValueError(f"{name} {value!r} is unknown; available: {', '.join(choices)}")
    if not isinstance(count, int) or count < 1 or not (game is None or (isinstance(game, int) and game >= 0)):
        raise ValueError(f"count {count!r} or game {game!r} is no number; counts begin at 1, and games at 0")
    if not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
        raise ValueError(f"a delay cannot have {seconds!r} seconds")
    return Fault(cast(Kind, kind), request, count, game, float(seconds))
