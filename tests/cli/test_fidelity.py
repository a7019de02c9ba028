"""`refil fidelity`: the table of game and simulator."""

import json

import pytest

from refil.cli import fidelity
from refil.envs.sc2.fidelity import Constant, Point
from refil.envs.sc2.records import InstallError
from refil.errors import RefilError

POINTS = {
    "stop": [
        Point("win rate", 20, 0.5, (0.3, 0.7), 0.4, (0.2, 0.6), 0.1, (-0.1, 0.3)),
        Point("length", 20, 50.0, (48.0, 52.0), 40.0, (39.0, 41.0), 10.0, (9.0, 11.0)),
    ]
}

CONSTANTS = [Constant("max_health of ally marines", 45.0, 45.0), Constant("radius of enemy marines", 0.5, 0.375)]


def test_the_table_marks_differences_and_names_constants(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    fidelity.print_tables(fidelity.FidelityArgs("3m", ("stop",), 20), POINTS)
    printed = capsys.readouterr().out
    assert "3m, script stop: 20 battles" in printed
    lines = {line.split("│")[1].strip(): line for line in printed.splitlines() if line.count("│") > 3}
    assert "50.0 %" in lines["win rate"]
    assert "+10.0 %" in lines["win rate"]
    assert "differs" not in lines["win rate"]
    assert "+9.0 to +11.0" in lines["length"]
    assert "differs" in lines["length"]
    assert "length: speed, range, damage and attack_period of the units; Rules.scan_range" in printed
    assert "win rate: " not in printed


def test_json_has_all_numbers():
    found = json.loads(fidelity.to_json(fidelity.FidelityArgs("3m", ("stop",), 20), CONSTANTS, POINTS))
    assert [constant["differs"] for constant in found["constants"]] == [False, True]
    length = found["scripts"]["stop"][1]
    assert (found["env"], length["name"], length["difference"], length["differs"]) == ("3m", "length", 10.0, True)


def test_constants_that_differ_are_printed(capsys):
    fidelity.print_constants(CONSTANTS)
    assert capsys.readouterr().out == "differs: radius of enemy marines is 0.5 in the game and 0.375 in the simulator\n"
    fidelity.print_constants(CONSTANTS[:1])
    assert capsys.readouterr().out.startswith("1 constants of unit types (health, shield, radius, plane) are the same")


def test_a_missing_game_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("SC2PATH", str(tmp_path / "nowhere"))
    with pytest.raises(InstallError, match="nowhere, which is not a folder"):
        fidelity.main(["sc2:3m", "--scripts", "stop"])


def test_an_unknown_script_is_refused():
    with pytest.raises(RefilError, match="unknown script 'stopp'; did you mean 'stop'"):
        fidelity.main(["3m", "--scripts", "stopp"])
