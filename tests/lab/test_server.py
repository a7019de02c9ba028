"""The server: the questions of the page, and a sentence for everything that is wrong."""

import json

import pytest

from refil.lab import roster, server
from tests.lab.asgi import Client
from tests.lab.conftest import line

HOST = "127.0.0.1:8000"


@pytest.fixture(scope="module")
def served():
    app, lab = server.app(roster.open_roster(), lambda: {HOST})
    return Client(app, HOST), lab


@pytest.fixture
def ask(served):
    def asked(question, content=None, **fields):
        return served[0].post(f"/api/{question}", json.dumps(fields).encode() if content is None else content)

    return asked


def error(response, status=400):
    assert response.status == status, response.text
    assert set(response.json()) == {"error"}
    return response.json()["error"]


CHOSEN = {"allies": "script nearest", "enemies": "script attack_move", "seed": 0}


def test_the_page_is_one_file_that_may_load_nothing(served):
    response = served[0].get("/")
    assert response.status == 200
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "refil lab" in response.text


PATHS = ["/../pyproject.toml", "/..%2f..%2fpyproject.toml", "/pages/lab.js", "/%2e%2e/etc/passwd", "//etc/passwd"]


@pytest.mark.parametrize("path", [*PATHS, "/api/../page.py", "/lab.py", "/api/__class__", "/api/warm_up"])
def test_no_file_is_served(served, path):
    for response in (served[0].get(path), served[0].get(f"/api/{path}")):
        assert error(response, response.status) == "the lab has nothing at this address"
        assert response.status in (404, 405)


def test_setup_names_everything_that_can_be_chosen(ask):
    setup = ask("setup").json()
    assert {"marine", "zealot"} <= {unit["name"] for unit in setup["types"]}
    assert setup["commanders"][0]["key"] == "script attack_move"
    assert setup["players"]["random group_matching"]["tasks"] == ["group_matching"]
    assert setup["limits"]["units"] == 64


def test_a_battle_is_played_and_the_same_seed_gives_the_same_battle(ask, situation):
    one, again = (ask("battle", units=situation, **CHOSEN).json() for _ in range(2))
    assert one["clip"]["frames"] == again["clip"]["frames"]
    assert one["clip"]["frames"][0][1][0][1:3] == [13.0, 12.0]
    assert one["summary"]["steps"] * 8 + 1 == len(one["clip"]["frames"])
    assert one["summary"]["winner"] in ("allies won", "enemies won")
    assert again["number"] == one["number"] + 1
    assert one["has_teams"] is False
    assert ask("inspect", number=one["number"]).json() == {"details": None}


def test_teams_say_which_armies_they_cannot_command(ask, situation):
    reasons = ask("check", units=situation).json()["reasons"]
    assert reasons["team 3-8sz"] == {"ally": None, "enemy": None}
    response = ask("battle", units=situation, **CHOSEN | {"enemies": "team 3-8MMM"})
    assert "3-8MMM was trained with marines and marauders and medivacs only" in error(response)


def test_a_placement_file_is_read(ask, situation):
    text = json.dumps({"units": situation, "actions": [["stop", "stop", "stop"]]})
    assert ask("open", name="x.json", text=text).json() == {"units": situation, "has_actions": True}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "cannot read x.json: Expecting property name"),
        ("[]", "x.json has no list of units"),
        ('{"units": []}', "x.json has no list of units"),
        ('{"units": [1]}', "unit 0 needs team, type, x and y; it is 1"),
        ('{"units": [], "more": 1}', "x.json has no list of units"),
        (json.dumps({"units": line("ally", "dragoon", 9.0)}), "unit 0 has unknown type 'dragoon'; available: baneling"),
        (json.dumps({"units": line("ally", "marine", 9.0) * 2}), "units 0 and 1 overlap"),
        (json.dumps({"units": line("ally", "marine", 9.0) * 1000}), "1,000 units are too many"),
        ("[" * 100_000, "cannot read x.json"),
    ],
)
def test_a_bad_file_gets_a_sentence(ask, text, complaint):
    assert complaint in error(ask("open", name="x.json", text=text))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"units": line("ally", "marine", 9.0) * 1000}, "1,000 units are too many; the lab has room for 64 on each side"),
        ({"units": "marine"}, "units must be a list"),
        ({"units": [None]}, "unit 0 needs team, type, x and y; it is None"),
        ({"units": line("ally", "marine", float("nan"))}, "unit 0 has x nan, which is not a number"),
        ({"allies": "script ../../x"}, "unknown commander 'script ../../x'"),
        ({"allies": "script /tmp/x.py"}, "unknown commander 'script /tmp/x.py'"),
        ({"allies": ["x"]}, "unknown commander ['x']"),
        ({"seed": -1}, "the seed must be a whole number from 0 to 1,000,000,000, not -1"),
        ({"seed": 0.5}, "not 0.5"),
        ({"seed": True}, "not True"),
        ({"seed": None}, "not None"),
    ],
)
def test_a_bad_battle_gets_a_sentence(ask, situation, changes, complaint):
    assert complaint in error(ask("battle", **{"units": situation, **CHOSEN, **changes}))


def test_what_is_no_json_gets_a_sentence(ask):
    for body in (b"{", b"", b"\xff", b"[" * 100_000):
        assert error(ask("battle", body)).startswith("the request is not JSON")
    assert error(ask("battle", b"[]")) == "a request must be a JSON object"


def test_long_complaints_are_cut(ask):
    assert len(error(ask("battle", units=[{"team": "x" * 10_000}], **CHOSEN))) <= server.MAX_LENGTH + 3


def test_a_failure_gets_a_sentence(ask, served, situation, monkeypatch, capsys):
    monkeypatch.setattr(server.battle, "play", lambda asked: 1 / 0)
    assert error(ask("battle", units=situation, **CHOSEN), 500) == "the lab failed: ZeroDivisionError: division by zero"
    assert "Traceback" in capsys.readouterr().err
    assert not served[1].busy.locked()


def test_battles_are_forgotten_after_some_time(ask, served, situation, monkeypatch):
    monkeypatch.setattr(server, "KEPT", 1)
    first, second = (ask("battle", units=situation, **CHOSEN).json()["number"] for _ in range(2))
    assert "too long ago to be inspected" in error(ask("inspect", number=first))
    assert list(served[1].played) == [second]
    assert "battle 'x' is too long ago" in error(ask("inspect", number="x"))


def test_an_episode_of_group_matching_is_played(ask):
    response = ask("episode", player="random group_matching", task="group_matching", seed=1).json()
    assert response["summary"]["steps"] + 1 == len(response["clip"]["frames"])
    assert "unknown task None" in error(ask("episode", player="random group_matching", seed=1))
    assert "unknown player 3" in error(ask("episode", player=3, seed=1))
