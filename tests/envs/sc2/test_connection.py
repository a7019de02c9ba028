"""Requests and responses, and what happens when a game does not answer as it should."""

import time

import pytest

from refil.envs.sc2 import install
from refil.envs.sc2.connection import Connection
from refil.envs.sc2.peer.faults import Fault
from refil.envs.sc2.peer.server import Peer
from refil.envs.sc2.process import GameProcess
from refil.envs.sc2.records import GameCrashedError, GameEndedError, GameRefusedError, GameTimeoutError
from tests.envs.sc2.fake_game import executable, installed, marines

api = install.protocol().api


@pytest.fixture(scope="module")
def peer():
    with Peer(marines()) as peer:
        yield peer


@pytest.fixture
def connection(peer, tmp_path):
    process = GameProcess(installed(tmp_path, peer.port))
    connection = Connection(process, 20.0)
    yield connection
    process.end()
    connection.close()


def ping(connection, timeout=20.0):
    return connection.request(timeout, ping=api.RequestPing())


def test_a_request_returns_the_field_of_its_response(connection):
    assert ping(connection).game_version == "refil simulator"


def test_a_request_that_is_not_valid_now_is_refused(connection):
    with pytest.raises(GameRefusedError, match="refused the request step: request step is not valid in status launched"):
        connection.request(20.0, step=api.RequestStep(count=8))


def test_a_game_that_hangs_is_reported_in_time(peer, connection):
    peer.faults.add(Fault("hang", "ping"))
    start = time.monotonic()
    with pytest.raises(GameTimeoutError, match=r"did not answer the request ping within 0.3 s; its last lines are: relay"):
        ping(connection, 0.3)
    assert time.monotonic() - start < 5.0


def test_a_slow_answer_within_the_timeout_is_fine(peer, connection):
    peer.faults.add(Fault("delay", "ping", seconds=0.2))
    assert ping(connection).base_build == 0


def test_a_game_that_crashes_is_reported_with_its_last_lines(peer, connection):
    peer.faults.add(Fault("crash", "ping", 2))
    ping(connection)
    expected = (
        r"StarCraft II ended with exit code 1 during the request ping; its last lines are: .*the peer closed the connection"
    )
    with pytest.raises(GameCrashedError, match=expected):
        ping(connection)


def test_garbage_is_reported(peer, connection):
    peer.faults.add(Fault("garbage", "ping"))
    with pytest.raises(GameCrashedError, match="answered the request ping with something that is not its protocol"):
        ping(connection)


def test_a_refusal_is_reported_with_the_reason(peer, connection):
    peer.faults.add(Fault("refuse", "ping"))
    with pytest.raises(GameRefusedError, match="refused the request ping: refused, as this peer was told"):
        ping(connection)


def test_requests_after_the_end_of_a_game_say_so(peer, connection):
    peer.faults.add(Fault("end", "ping"))
    ping(connection)
    with pytest.raises(GameEndedError, match="the game of StarCraft II has ended"):
        connection.request(20.0, step=api.RequestStep(count=8))


def test_a_game_that_dies_before_it_listens_is_reported(tmp_path):
    process = GameProcess(executable(tmp_path, "print('libGL is missing'); sys.exit(5)"))
    with pytest.raises(GameCrashedError, match=r"exit code 5 before it opened port .*; its last lines are: libGL is missing"):
        Connection(process, 20.0)
    process.end()


def test_a_game_that_never_listens_is_reported(tmp_path):
    process = GameProcess(executable(tmp_path, "time.sleep(1000)"))
    with pytest.raises(GameTimeoutError, match=r"did not open port \d+ within 0.3 s; it printed nothing"):
        Connection(process, 0.3)
    process.end()
