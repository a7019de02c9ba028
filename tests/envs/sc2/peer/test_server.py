"""The server of a peer: frames, games and the side channel."""

import json
from contextlib import contextmanager

import pytest

from refil.envs.sc2 import install
from refil.envs.sc2.peer.server import Peer
from tests.envs.sc2.fake_game import MARINES, client, marines

protocol = install.protocol()
api = protocol.api


@pytest.fixture(scope="module")
def peer():
    with Peer(marines()) as peer:
        yield peer


@contextmanager
def connected(peer, path="/sc2api"):
    with protocol.connect(f"ws://127.0.0.1:{peer.port}{path}", proxy=None) as connection:
        yield connection


@pytest.mark.parametrize("text", [False, True], ids=["binary", "text"])
def test_binary_and_text_frames_get_binary_answers(peer, text):
    with connected(peer) as connection:
        for number in (3, 200, 40_000):  # from 128 on the bytes are not UTF-8
            connection.send(api.Request(id=number, ping=api.RequestPing()).SerializeToString(), text=text)
            answer = connection.recv(20)
            assert isinstance(answer, bytes)
            assert api.Response.FromString(answer).id == number


def test_a_message_that_is_not_the_protocol_gets_no_sensible_answer(peer):
    with connected(peer) as connection:
        connection.send(b"\xff\xff\xff\xff")
        with pytest.raises(protocol.DecodeError):
            api.Response.FromString(connection.recv(20))


def test_the_side_channel_shows_the_exact_state_and_adds_faults(peer, tmp_path):
    game = client(tmp_path, peer)
    units = game.reset(MARINES)
    number = len(peer.sessions) - 1
    with connected(peer, "/peer") as channel:

        def ask(**message):
            channel.send(json.dumps(message))
            return json.loads(channel.recv(20))

        state = ask(command="state", game=number)
        assert [state["game_tag"][slot] for slot in (0, 1, 2)] == units.tag.tolist()
        assert [state["x"][slot] for slot in (0, 1, 2)] == units.x.tolist()
        assert state["tick"] == units.tick
        assert ask(command="requests")["join_game"] >= 1
        assert ask(command="fault", kind="crash", request="step", game=number) == {}
        assert "unknown command 'x'; available" in ask(command="x")["error"]
        assert "there is no game 99; games so far" in ask(command="state", game=99)["error"]
        assert "there is no game None" in ask(command="state")["error"]
        assert "kind 'explode' is unknown" in ask(command="fault", kind="explode")["error"]
        assert "a fault has kind, request, count, game, seconds" in ask(command="fault", kind="hang", when=3)["error"]
        for message in ("{", "[1]", b"\xff\xfe"):
            channel.send(message)
            assert "error" in json.loads(channel.recv(20))
    with pytest.raises(Exception, match="during the request step"):
        game.step([], 8)
    game.close()


def test_games_do_not_know_each_other(peer, tmp_path):
    games = [client(tmp_path, peer) for _ in range(2)]
    first, second = games[0].reset(MARINES), games[1].reset(MARINES[1:])
    assert (len(first), len(second)) == (3, 2)
    assert games[0].step([], 8).tick == first.tick + 8
    assert games[1].step([], 0).tick == second.tick
    for game in games:
        game.close()
