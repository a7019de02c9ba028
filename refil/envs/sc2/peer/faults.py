"""Faults that a peer can be told to have."""

import threading
from dataclasses import dataclass
from typing import Literal, cast, get_args

from refil.errors import RefilError

Kind = Literal["crash", "hang", "delay", "refuse", "end", "garbage"]
HOW = f"write KIND:REQUEST:COUNT, such as crash:step:20, where KIND is one of {', '.join(get_args(Kind))}"


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
    """Return the fault that `crash:step:20` describes."""
    kind, _, rest = text.partition(":")
    request, _, count = rest.partition(":")
    count = count or "1"
    if kind not in get_args(Kind) or not count.isdigit() or not int(count):
        raise RefilError(f"{text!r} is not a fault; {HOW}")
    return Fault(cast(Kind, kind), request or "step", int(count))
