"""`refil teams`."""

import json

from refil import teams


def test_all_teams_are_listed_with_their_win_rates(refil):
    out, _, code = refil("teams")
    assert code == 0
    for name in teams.names():
        (line,) = [line for line in out.splitlines() if line.startswith(f"{name} ")]
        assert f"{teams.card(name).evaluation.win_rate:.3f}" in line


def test_a_card_is_shown(refil):
    out, _, _ = refil("teams", "3-8sz")
    assert "refil_pqn, 50,000,000 steps, seed 1" in out
    assert teams.card("3-8sz").sha256 in out
    assert json.loads(refil("teams", "3-8sz", "--json")[0])["commit"] == "ddd4e73"
    assert len(json.loads(refil("teams", "--json")[0])) == len(teams.names())


def test_an_unknown_team_is_named(refil):
    _, error, code = refil("teams", "3-8sx")
    assert code == 2
    assert "there is no team '3-8sx'; did you mean '3-8sz'?" in error
