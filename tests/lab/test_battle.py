"""Battles of the lab."""

import json
from dataclasses import dataclass
from dataclasses import field as dataclass_field

import numpy as np
import pytest

from refil.envs.starcraft.sim import tick
from refil.lab import battle, field
from refil.lab.battle import Battle
from refil.lab.commanders import Scripted
from tests.cli.conftest import refil  # noqa: F401 (a fixture)

ENGINE = Scripted("attack_move")


def test_a_battle_is_that_of_the_command_line(refil, situation, tmp_path):  # noqa: F811
    """From the same placement with the same script and seed, every tick of every unit agrees."""
    situation[0]["health"] = 30
    situation.append({"team": "ally", "type": "medivac", "x": 12.0, "y": 16.0})
    path = tmp_path / "placement.json"
    path.write_text(json.dumps({"units": situation}))
    printed = refil("battle", "--placement", str(path), "--script", "focus", "--seed", "5", "--ticks")[0]
    expected = [json.loads(row)["units"] for row in printed.splitlines()]
    units = field.parse(situation)
    played = battle.play(Battle(units, Scripted("focus"), ENGINE, 5))
    slots, ticks = field.slots_of(units, 12), battle.ticks_of(played)[1:]
    assert len(ticks) == len(expected) > 100
    for state, row in zip(ticks, expected, strict=True):
        for name in ("x", "y", "health", "shield", "energy", "cooldown"):
            assert [round(float(value), 6) for value in getattr(state, name)[slots]] == [unit[name] for unit in row]


@dataclass(frozen=True)
class Counted(Scripted):
    """A script that counts how often it is traced."""

    traces: list[str] = dataclass_field(default_factory=list, compare=False)

    def orders(self, battle, state, memory, key):
        self.traces.append("orders")
        return super().orders(battle, state, memory, key)


def test_edits_and_other_seeds_compile_nothing(situation, monkeypatch):
    script, original = Counted("nearest"), tick.tick
    battle.play(Battle(field.parse(situation), script, ENGINE, 0))
    monkeypatch.setattr(tick, "tick", lambda *given: script.traces.append("tick") or original(*given))
    compiled = list(script.traces)
    assert compiled == ["orders"]
    results = [battle.summary(*_played(situation, script, seed)) for seed in (0, 1)]
    situation[3] |= {"type": "colossus", "health": 10, "x": 21.0}
    results.append(battle.summary(*_played([*situation, situation[0] | {"y": 20.0}], script, 0)))
    results.append(battle.summary(*_played(situation[:4], script, 0)))
    assert script.traces == compiled
    assert len({json.dumps(result) for result in results}) > 2


def _played(situation, script, seed):
    asked = Battle(field.parse(situation), script, ENGINE, seed)
    return asked, battle.play(asked)


def test_the_summary_says_who_won_and_what_is_left(situation):
    situation[0] |= {"health": 40, "shield": 0}
    summary = battle.summary(*_played(situation[:4], Scripted("focus"), 0))  # one enemy Stalker
    assert summary["result"] == "won"
    assert summary["enemy"] == {"units": 1, "left": 0, "health": 0.0}
    assert summary["ally"]["units"] == 3
    assert 0 < summary["ally"]["health"] < 1


def test_rewards_are_those_of_steps(units):
    played = battle.play(Battle(units, ENGINE, ENGINE, 1))
    ticks = battle.rewards_of_ticks(played)
    assert len(ticks) == 8 * played.length
    assert ticks[7::8] == pytest.approx(played.rewards)
    assert np.count_nonzero(ticks) <= played.length


def test_healers_alone_lose_and_without_healers_both_can_die():
    """Two Banelings that meet kill each other; that is lost for allies only where a healer takes part."""
    pair = [{"team": team, "type": "baneling", "x": x, "y": 16.0} for team, x in (("ally", 14.0), ("enemy", 18.0))]
    assert battle.summary(*_played(pair, ENGINE, 0))["result"] in ("both dead", "won", "lost")
    healer = [*pair[:1], {"team": "ally", "type": "medivac", "x": 9.0, "y": 16.0}, *pair[1:]]
    assert battle.summary(*_played(healer, ENGINE, 0))["result"] in ("lost", "won")
