"""Who can be chosen, and what a name on the command line means."""

import jax
import pytest

from refil.errors import RefilError
from refil.examples import beacon
from refil.lab import roster
from refil.lab.commanders import Scripted, Trained
from refil.storage import run_dir
from refil.training import config as configs
from tests.cli.conftest import untrained_team  # noqa: F401 (a fixture)


def test_the_engine_comes_first_and_teams_last():
    found = roster.open_roster()
    keys = found.keys()
    assert keys[0] == "script attack_move"
    assert keys[-1] == "team 3-8sz"
    assert found.opened is None
    assert [entry["key"] for entry in found.describe()] == keys
    assert found.describe()[0]["label"] == "attack-move (engine)"


def test_commanders_are_loaded_once(units):
    found = roster.open_roster("3-8sz")
    assert found.opened == "team 3-8sz"
    assert isinstance(found.commander("script kite"), Scripted)
    team = found.commander("team 3-8sz")
    assert isinstance(team, Trained)
    assert found.commander("team 3-8sz") is team
    reasons = found.reasons(units)
    assert reasons["team 3-8sz"] == {"ally": None, "enemy": None}
    assert "only, and not with stalkers" in reasons["team 3-8MMM"]["ally"]
    with pytest.raises(RefilError, match="unknown commander 'script nobody'; "):
        found.commander("script nobody")
    with pytest.raises(RefilError, match="unknown commander None"):
        found.commander(None)


@pytest.mark.slow
def test_a_run_of_battles_is_a_commander(untrained_team):  # noqa: F811
    path = str(untrained_team("3-8sz").path)
    found = roster.open_roster(path)
    assert found.opened == f"run {path}"
    assert isinstance(found.commander(found.opened), Trained)
    assert {"key": found.opened, "kind": "run", "label": path, "about": "your team"} in found.describe()


def test_a_run_of_another_environment_is_a_player(tmp_path):
    config = configs.default("group_matching", "refil").with_options({"agents": 3}, {"size": 8, "heads": 2})
    run = run_dir.create(tmp_path / "run", config)
    run.save_models(jax.vmap(config.build().method.init)(jax.random.split(jax.random.key(0), 1)), [0], config)
    found = roster.open_roster(str(run.path))
    player = found.player(found.opened)
    assert player.team is not None
    assert player.describe()["tasks"] == ["group_matching"]
    with pytest.raises(RefilError, match="unknown player 'x'"):
        found.player("x")


def test_an_environment_plays_random_actions(tmp_path):
    found = roster.open_roster("2s3z")
    assert found.opened == "random 2s3z"
    assert found.player("random 2s3z").team is None
    assert "random group_matching" in found.players
    with pytest.raises(RefilError, match="no_such_thing"):
        roster.open_roster("no_such_thing")
    with pytest.raises(RefilError, match="holds no run"):
        roster.open_roster(str(tmp_path))


def test_an_environment_without_drawings_is_refused():
    with pytest.raises(RefilError, match=r"cannot be shown in the lab: its environment has no scene\(state\)"):
        roster.open_roster(beacon.__file__)
