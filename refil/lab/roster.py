"""The roster of the lab: all commanders and players that can be chosen, each loaded when it is first needed."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refil import environment, plugins, teams
from refil.errors import RefilError, list_choices
from refil.lab import commanders
from refil.lab.commanders import Commander, Scripted, Trained
from refil.lab.episodes import Player
from refil.lab.field import SIDES, Units
from refil.team import Team
from refil.types import Env

GAME = "group_matching"


@dataclass
class Roster:
    """Commanders of battles by their keys, such as `script nearest` and `team 3-8sz`, and players of other environments.

    `opened` is the key of the commander or player that the user has asked for on the command line, if there is one.
    """

    players: dict[str, Player]
    own: dict[str, Team] = field(default_factory=dict)
    opened: str | None = None
    _loaded: dict[str, Commander] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keys(self) -> list[str]:
        """Return the keys of all commanders: scripts, the user's own team, and the teams that ship with refil."""
        scripts = plugins.names(commanders.SCRIPTS)
        scripts.sort(key=lambda name: name != commanders.ENGINE)  # the engine's own behavior first
        return [*(f"script {name}" for name in scripts), *self.own, *(f"team {name}" for name in teams.names())]

    def describe(self) -> list[dict[str, str]]:
        """Return the key, the label and one line about every commander."""
        found = []
        for key in self.keys():
            kind, _, name = key.partition(" ")
            if kind == "script":
                label = "attack-move (engine)" if name == commanders.ENGINE else name.replace("_", " ")
                about = plugins.summary(commanders.SCRIPTS, name)
            else:
                label, about = name, "your team" if key in self.own else teams.card(name).summary
            found.append({"key": key, "kind": kind, "label": label, "about": about})
        return found

    def commander(self, key: Any) -> Commander:
        """Return a commander by its key."""
        if key not in self.keys():
            raise RefilError(f"unknown commander {key!r}; {list_choices(str(key), self.keys())}")
        with self._lock:
            if key not in self._loaded:
                kind, _, name = key.partition(" ")
                team = self.own.get(key)
                self._loaded[key] = Scripted(name) if kind == "script" else Trained(team or teams.load(name))
            return self._loaded[key]

    def player(self, key: Any) -> Player:
        """Return a player by its key."""
        if key not in self.players:
            raise RefilError(f"unknown player {key!r}; {list_choices(str(key), self.players)}")
        return self.players[key]

    def reasons(self, units: Units) -> dict[str, dict[str, str | None]]:
        """Return for every trained team and each side why it cannot command that side, or None."""
        found: dict[str, dict[str, str | None]] = {}
        for key in self.keys():
            commander = self.commander(key)
            if isinstance(commander, Trained):
                found[key] = {side: commander.reason_against(units, side) for side in SIDES}
        return found


def open_roster(name: str | None = None, model: int | None = None, trust: bool = False) -> Roster:
    """Return the roster with a team, a run or an environment of the user's choice in addition to those that ship with refil.

    A name is first that of a team, then a folder that exists, then an environment.
    """
    players = {f"random {GAME}": Player(environment.make(GAME).core, GAME)}
    if name is None:
        return Roster(players)
    if name in teams.names():
        teams.load(name, model)  # raises if the team has no model of this seed
        return Roster(players, opened=f"team {name}")
    if not name.endswith(".py") and ("/" in name or Path(name).exists()):
        return _with_run(teams.load_any(Path(name), model, trust), players)
    env = environment.make(name).core
    _check_scene(env, name)
    key = f"random {Path(name).stem}"
    return Roster({key: Player(env, Path(name).stem), **players}, opened=key)


def _with_run(team: Team, players: dict[str, Player]) -> Roster:
    if commanders.can_command(team.env):
        return Roster(players, {f"run {team.name}": team}, f"run {team.name}")
    _check_scene(team.env, team.name)
    key = f"run {team.name}"
    return Roster({key: Player(team.env, team.name, team), **players}, opened=key)


def _check_scene(env: Env, name: str) -> None:
    if not hasattr(env, "scene"):
        raise RefilError(f"{name} cannot be shown in the lab: its environment has no scene(state)")
