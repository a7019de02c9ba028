"""Trained teams that ship with the package, and their cards."""

import hashlib
import json
import shutil
import tomllib
from pathlib import Path

import pytest

import refil
from refil import stats, teams
from refil.errors import RefilError
from refil.teams.card import Card, Evaluation

NAMES = teams.names()
ROOT = Path(__file__).parent.parent.parent


def test_every_set_has_a_team():
    assert {"3-8sz", "3-8csz", "3-8MMM"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_those_of_the_card(name):
    card = teams.card(name)
    content = (teams.FOLDER / f"{name}.safetensors").read_bytes()
    assert hashlib.sha256(content).hexdigest() == card.sha256
    assert len(content) == card.size < 1_000_000
    assert card.name == name
    assert card.license == "MIT"
    assert b"mixer" not in content[:20_000]  # names of arrays


@pytest.mark.parametrize("name", NAMES)
def test_numbers_on_a_card_follow_from_counts(name):
    stored = json.loads((teams.FOLDER / f"{name}.json").read_text())["evaluation"]
    per_task = stored["episodes"] * len(stored["seeds"])
    for row in stored["tasks"].values():
        assert row["win_rate"] == pytest.approx(row["won"] / per_task, abs=1e-4)
        assert row["ci95"] == pytest.approx(stats.wilson_interval(row["won"] / per_task, per_task), abs=1e-4)
    total = sum(row["won"] for row in stored["tasks"].values()) / per_task / len(stored["tasks"])
    assert stored["win_rate"] == pytest.approx(total, abs=1e-4)
    assert per_task * len(stored["tasks"]) >= 3000


@pytest.mark.parametrize("name", NAMES)
def test_cards_sum_the_published_rounds(name):
    lines = [json.loads(line) for line in (ROOT / "results" / "teams" / f"{name}.jsonl").read_text().splitlines()]
    won = teams.card(name).evaluation.won
    assert won == {task: sum(line["won"][task] for line in lines) for task in won}


def test_a_damaged_team_is_refused(tmp_path):
    for suffix in ("json", "safetensors"):
        shutil.copy(teams.FOLDER / f"3-8sz.{suffix}", tmp_path)
    weights = tmp_path / "3-8sz.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(RefilError, match="is damaged: its SHA-256 is not the one on the card"):
        teams.load("3-8sz", folder=tmp_path)
    (tmp_path / "3-8sz.json").write_text("{}")
    with pytest.raises(RefilError, match="is not the card of a team"):
        teams.card("3-8sz", tmp_path)


def test_a_name_without_a_separator_is_a_team_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "3-8sz").mkdir()
    (tmp_path / "mine").mkdir()
    assert teams.find("3-8sz") == "3-8sz"
    assert teams.find("./3-8sz") is None
    assert teams.find(Path("3-8sz")) is None
    assert teams.find("mine") is None
    with pytest.raises(RefilError, match=r"no team and no folder '3-8SZ'; did you mean '3-8sz'\?"):
        teams.find("3-8SZ")
    with pytest.raises(RefilError, match="mine holds no run"):
        refil.load("mine")
    with pytest.raises(RefilError, match="was trained with seed 1"):
        refil.load("3-8sz", seed=0)


def test_a_card_survives_its_file_and_shows_the_worst_task_first():
    evaluation = Evaluation(10, (5, 6), {"easy": 20, "hard": 5}, {"easy": 20.0, "hard": 8.0}, {"easy": 30.0, "hard": 60.0})
    card = Card("name", 1, "summary", "refil", "3-8sz", 100, 3, "abc", "runs/x", evaluation, {})
    assert Card.parse(card.to_json(), "card") == card
    assert evaluation.win_rate == 25 / 40
    lines = card.render().splitlines()
    assert lines[-2].split()[:2] == ["hard", "0.250"]
    assert lines[-1].split()[:2] == ["easy", "1.000"]


def test_the_wheel_contains_the_teams():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert set(data["refil.teams"]) == {"*.json", "*.safetensors"}
    assert {path.suffix for path in teams.FOLDER.iterdir() if path.is_file()} == {".py", ".json", ".safetensors"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_battles_reproduce_the_card_within_sampling_error(name):
    """With 5 teams and an error of 4.5 standard deviations, one run in 30,000 fails although nothing is wrong."""
    card = teams.card(name).evaluation
    played = refil.evaluate(refil.load(name), episodes=400, seed=77)
    deviation = (card.win_rate * (1 - card.win_rate) / 400) ** 0.5
    assert abs(played.win_rate - card.win_rate) < 4.5 * deviation + 0.005


def test_a_few_battles_reproduce_the_card():
    card = teams.card("3-8sz").evaluation
    played = refil.evaluate(refil.load("3-8sz"), episodes=48, seed=78)
    assert played.win_rate >= card.win_rate - 4.5 * (card.win_rate * (1 - card.win_rate) / 48) ** 0.5 - 0.005
