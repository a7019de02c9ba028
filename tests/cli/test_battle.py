"""refil battle: statistics, ticks, replays and errors."""

import json
from pathlib import Path

import pytest

from refil.cli import battle

KEYS = {
    "episodes",
    "win_rate",
    "loss_rate",
    "draw_rate",
    "timeout_rate",
    "length_mean",
    "length_std",
    "allies_left_mean",
    "enemies_left_mean",
    "ally_health_left_mean",
    "enemy_health_left_mean",
}
MARINE = {"team": "ally", "type": "marine", "x": 10.0, "y": 16.0}
ENEMY = {"team": "enemy", "type": "marine", "x": 15.0, "y": 16.0}


def placed(tmp_path: Path, content: object) -> str:
    path = tmp_path / "placement.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_json_has_the_promised_keys(refil):
    out, _, code = refil("battle", "--allies", "1s", "--enemies", "2z", "--script", "stop", "--episodes", "4", "--json")
    result = json.loads(out)
    assert code == 0
    assert set(result) >= KEYS
    assert result["episodes"] == 4
    assert result["loss_rate"] == 1.0
    assert result["enemy_health_left_mean"] == 1.0


def test_the_table_has_the_same_numbers(refil, monkeypatch):
    monkeypatch.setattr(battle, "CHUNK", 3)
    out, progress, _ = refil("battle", "--allies", "1s", "--enemies", "2z", "--script", "stop", "--episodes", "4")
    assert "setting up the battles" in progress
    assert "playing battles 1 to 3 of 4 ..." in progress
    assert "playing battles 4 to 4 of 4 ..." in progress
    assert "100.0 %" in out
    assert "script stop" in out


@pytest.mark.slow
def test_ticks_of_a_placement(refil, tmp_path):
    units = [ENEMY, MARINE | {"health": 20, "cooldown": 3}]  # the enemy is first in the file
    path = placed(tmp_path, {"units": units, "actions": [["target 0"], ["stop"], ["west"]]})
    out = refil("battle", "--placement", path, "--no-jitter", "--ticks")[0]
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["tick"] for line in lines] == list(range(1, len(lines) + 1))
    assert set(lines[0]["units"][0]) == {"x", "y", "health", "shield", "energy", "cooldown"}
    enemy, ally = zip(*(line["units"] for line in lines), strict=True)
    assert [unit["health"] for unit in ally[:1]] == [14.0]  # the enemy attacks immediately
    assert [unit["health"] for unit in enemy[:3]] == [45.0, 45.0, 39.0]  # the ally attacks when its weapon is ready
    assert ally[15]["x"] == 10.0
    assert ally[17]["x"] == pytest.approx(10 - 2 * 2.25 / 16, abs=1e-5)  # the third step goes west
    assert ally[-1]["health"] == 0


def test_the_script_gives_orders_where_no_actions_are_given(refil, tmp_path):
    path = placed(tmp_path, {"units": [MARINE, ENEMY]})
    result = json.loads(refil("battle", "--placement", path, "--script", "nearest", "--episodes", "3", "--json")[0])
    assert result["episodes"] == 3


def test_a_placement_of_one_team_can_be_simulated(refil, tmp_path):
    units = [MARINE | {"health": 1}, {"team": "ally", "type": "medivac", "x": 11.0, "y": 16.0}]
    path = placed(tmp_path, {"units": units, "actions": [["stop", "target 0"]]})
    out = refil("battle", "--placement", path, "--ticks", "--limit", "2")[0]
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(lines) == 16
    assert lines[7]["units"][0]["health"] == pytest.approx(5.5)
    assert lines[7]["units"][1]["energy"] == pytest.approx(48.79625, abs=1e-4)


def test_replay_pages_animations_and_pictures_are_written(refil, tmp_path):
    path = placed(tmp_path, {"units": [MARINE | {"health": 6}, ENEMY]})
    files = [tmp_path / name for name in ("a.html", "a.gif", "a.png")]
    options = [word for file in files for word in (f"--{file.suffix[1:]}", str(file))]
    assert refil("battle", "--placement", path, "--script", "stop", "--episodes", "2", *options)[2] == 0
    assert "lost after 1 steps" in files[0].read_text()
    assert files[1].read_bytes()[:3] == b"GIF"
    assert files[2].read_bytes()[1:4] == b"PNG"


def test_two_scripts_play_the_same_battles_side_by_side(refil, tmp_path):
    page = tmp_path / "page.html"
    options = ["--allies", "1m", "--episodes", "1", "--limit", "3", "--html", str(page)]
    assert refil("battle", *options, "--script", "stop", "--compare", "nearest")[2] == 0
    text = page.read_text()
    assert '"labels":["stop","nearest"]' in text
    assert '"stand"' in text
    assert '"move ' in text or '"attack enemy 1"' in text


WRONG = [
    (["--allies", "3s", "--compare", "kite"], "--compare shows two scripts on a page; give --html FILE"),
    (
        ["--allies", "5marines"],
        "letter marines; armies are numbers and letters, such as 5m for five Marines; did you mean 'm'?",
    ),
    (["--allies", "3q"], "no unit type has the letter q; available: M (marauder)"),
    (["--allies", "3s0z"], "is not an army"),
    (["--allies", ""], "is not an army"),
    (["--allies", "sz"], "is not an army"),
    (["--allies", "3s", "--script", "dance"], "unknown script 'dance'; available: attack_move"),
    (["--allies", "3h", "--profile", "smaclite"], "SMAClite has no hydralisk"),
    (["--allies", "3s", "--tasks", "3-8sz"], "give one of"),
    ([], "give one of"),
    (["--enemies", "3s", "--tasks", "3-8sz"], "--enemies needs --allies"),
    (["--tasks", "3-9sz"], "unknown environment '3-9sz'; did you mean"),
    (["--tasks", "group_matching"], "--tasks group_matching has no battles; available: 3-8sz"),
    (["--allies", "3s", "--episodes", "0"], "episodes"),
    (["--allies", "200m"], "at most"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_bad_input_is_an_error(refil, options, message):
    _, error, code = refil("battle", *options)
    assert code == 2
    assert message in error


INVALID = [
    ("not json", "cannot read"),
    ({"unit": []}, "no list of units"),
    ({"units": []}, "no list of units"),
    ({"units": [MARINE], "orders": []}, "orders"),
    ({"units": [{"team": "ally", "type": "marine", "x": 1.0}]}, "needs team, type, x and y"),
    ({"units": [MARINE | {"team": "blue"}]}, "team 'blue'"),
    ({"units": [MARINE | {"type": "ghost"}]}, "type 'ghost'; available: baneling"),
    ({"units": [MARINE | {"type": "/tmp/unit.py"}]}, "type '/tmp/unit.py'"),
    ({"units": [MARINE | {"type": ["marine"]}]}, "type ['marine']"),
    ({"units": [MARINE, ENEMY], "actions": [[["stop"]]]}, "unknown action ['stop']"),
    ({"units": [MARINE | {"x": 0.1}]}, "not on the map"),
    ({"units": [MARINE | {"x": "east"}]}, "'east', which is not a number"),
    ({"units": [MARINE | {"health": -1}]}, "health -1"),
    ({"units": [MARINE | {"health": 46}]}, "up to 45"),
    ({"units": [MARINE | {"shield": 1}]}, "shield 1"),
    ({"units": [MARINE | {"mood": 1}]}, "mood"),
    ({"units": [MARINE, ENEMY | {"x": 10.4}]}, "units 0 and 1 overlap"),
    ({"units": [MARINE, ENEMY], "actions": []}, "one list per step"),
    ({"units": [MARINE, ENEMY], "actions": [["stop", "stop"]]}, "each of the 1 allies"),
    ({"units": [MARINE, ENEMY], "actions": [["jump"]]}, "unknown action 'jump'"),
    ({"units": [MARINE, ENEMY], "actions": [["target 2"]]}, "target 0 to 1"),
]


@pytest.mark.parametrize(("content", "message"), INVALID, ids=[message for _, message in INVALID])
def test_invalid_placements_are_errors(refil, tmp_path, content, message):
    _, error, code = refil("battle", "--placement", placed(tmp_path, content))
    assert code == 2
    assert message in error


def test_a_missing_placement_is_an_error(refil, tmp_path):
    _, error, code = refil("battle", "--placement", str(tmp_path / "nothing.json"))
    assert code == 2
    assert "cannot read" in error


def test_battles_of_a_set_whose_units_vary(refil):
    out = refil("battle", "--tasks", "3-8sz-varied", "--script", "stop", "--episodes", "4", "--json")[0]
    assert json.loads(out)["enemy_health_left_mean"] == 1.0
