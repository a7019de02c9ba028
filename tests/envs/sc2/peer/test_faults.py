"""Faults of a peer."""

import pytest

from refil.envs.sc2.peer import faults
from refil.envs.sc2.peer.faults import Fault, Faults
from refil.errors import RefilError


def test_a_fault_is_written_as_kind_request_and_count():
    assert faults.parse("crash:step:20") == Fault("crash", "step", 20)
    assert faults.parse("hang") == Fault("hang", "step", 1)
    assert faults.parse("delay:action:2:3:0.5") == Fault("delay", "action", 2, game=3, seconds=0.5)
    assert faults.parse("delay:action:2:any:0.5") == Fault("delay", "action", 2, seconds=0.5)
    assert faults.parse("end:ping:1:0") == Fault("end", "ping", 1, game=0)


@pytest.mark.parametrize(
    "text",
    [
        "explode:step:1",
        "crash:step:x",
        "crash:step:0",
        "",
        "crash:stepp",
        "crash:step:1:-1",
        "delay:step:1:any:x",
        "a:b:c:d:e:f",
    ],
)
def test_anything_else_is_refused_with_the_choices(text):
    with pytest.raises(RefilError, match=r"is not a fault.*; write KIND.*crash, hang, delay, refuse, end, garbage"):
        faults.parse(text)


def test_a_fault_strikes_once_at_its_request():
    waiting = Faults((Fault("crash", "step", 3), Fault("hang", "action", game=1)))
    assert waiting.take(game=0, request="step", count=2) is None
    assert waiting.take(game=0, request="action", count=5) is None
    assert waiting.take(game=0, request="step", count=3) == Fault("crash", "step", 3)
    assert waiting.take(game=0, request="step", count=4) is None
    assert waiting.take(game=1, request="action", count=1) == Fault("hang", "action", game=1)
