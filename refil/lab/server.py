"""The server of the lab: one page, and the few questions that it may ask. Everything stays on this machine."""

import json
import sys
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from refil.envs.starcraft import reward
from refil.envs.starcraft.analysis import placement
from refil.errors import RefilError
from refil.lab import battle, field, inspection, page
from refil.lab.battle import Battle, BattleRecord
from refil.lab.commanders import ENGINE, Scripted
from refil.lab.guard import Guard, complaint, reply
from refil.lab.roster import Roster
from refil.settings import MAX_INT
from refil.viewer.encode import Clip, encode_clip

MAX_LENGTH = 500  # characters of a sentence on the page
KEPT = 12  # battles whose teams can still be inspected
TICKS_PER_SECOND = 16.0
WINNERS = {reward.WON: "allies won", reward.LOST: "enemies won", reward.BOTH_DEAD: "both dead", reward.UNDECIDED: "time is up"}
Answer = Callable[[dict[str, Any]], Any]


class Lab:
    """Answers the questions of the page; one computation at a time."""

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self.busy, self.inspecting = threading.Lock(), threading.Lock()  # a battle does not wait for the details of another
        self.played: OrderedDict[int, tuple[Battle, BattleRecord]] = OrderedDict()
        self.numbers = count(1)

    def warm_up(self) -> None:
        """Compile what every battle needs, before the first one is asked for."""
        units = [{"team": team, "type": "marine", "x": x, "y": 16.0} for team, x in (("ally", 14.0), ("enemy", 18.0))]
        engine = Scripted(ENGINE)
        with self.busy:
            battle.play(Battle(field.parse(units), engine, engine))

    def setup(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return what can be chosen: unit types, commanders, players."""
        players = {key: player.describe() for key, player in self.roster.players.items()}
        chosen = {"commanders": self.roster.describe(), "players": players, "opened": self.roster.opened}
        return {"types": page.unit_types(), "limits": page.limits(), **chosen}

    def check(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return which teams can command which side of these units."""
        return {"reasons": self.roster.reasons(field.parse(_list(asked, "units")))}

    def open(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Read the text of a placement file."""
        text, name = asked.get("text"), asked.get("name")
        if not isinstance(text, str) or not isinstance(name, str):
            raise RefilError("a file needs a text and a name")
        units, actions = placement.parse(text, name)
        _check_number(units)
        placement.parse_units(units)
        return {"units": units, "has_actions": actions is not None}

    def battle(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Play a battle."""
        units = field.parse(_list(asked, "units"))
        allies, enemies = (self.roster.commander(asked.get(name)) for name in ("allies", "enemies"))
        chosen = Battle(units, allies, enemies, _seed(asked))
        with self.busy:
            played = battle.play(chosen)
        summary, number = battle.summary(chosen, played) | {"winner": WINNERS[played.result]}, next(self.numbers)
        self.played[number] = chosen, played
        while len(self.played) > KEPT:
            self.played.popitem(last=False)
        scenes = [field.empty_field(chosen.size).scene(state) for state in battle.ticks_of(played)]
        title = f"{number}: {WINNERS[played.result]} after {played.length} steps, seed {chosen.seed}"
        clip = Clip(title, scenes, TICKS_PER_SECOND, battle.rewards_of_ticks(played))
        has_teams = any(actions is not None for actions in played.actions)
        return {"number": number, "clip": encode_clip(clip), "summary": summary, "has_teams": has_teams}

    def inspect(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return what the teams of a battle saw and expected."""
        number = asked.get("number")
        if not isinstance(number, int) or number not in self.played:
            raise RefilError(f"battle {number!r} is too long ago to be inspected; play it again")
        with self.inspecting:
            found = inspection.inspect(*self.played[number])
        return {"details": None if found is None else found.encode()}

    def episode(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Play an episode of another environment."""
        player, seed = self.roster.player(asked.get("player")), _seed(asked)
        with self.busy:
            replay = player.play(asked.get("task"), seed)
        summary = {"won": replay.won, "steps": replay.length, "return": round(replay.episode_return, 3)}
        number = next(self.numbers)
        clip = replace(replay.clip(number), title=f"{replay.clip(number).title}, seed {seed}")
        return {"number": number, "clip": encode_clip(clip), "summary": summary, "has_teams": False}


def app(roster: Roster, hosts: Callable[[], set[str]]) -> tuple[ASGIApp, Lab]:
    """Return the application and what answers for it; `hosts` returns the values of the Host header that it accepts."""
    lab = Lab(roster)
    answers = {name: getattr(lab, name) for name in ("setup", "check", "open", "battle", "inspect", "episode")}
    routes = [Route("/", _show_page)]
    routes += [Route(f"/api/{name}", _route(answer), methods=["POST"]) for name, answer in answers.items()]
    handlers: Any = {HTTPException: _refuse}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), hosts), lab


async def _show_page(request: Request) -> Response:
    return HTMLResponse(page.page(), headers={"Content-Security-Policy": page.policy()})


async def _refuse(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return complaint("the lab has nothing at this address", status)


def _route(answer: Answer) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        try:
            asked = json.loads(await request.body())
            if not isinstance(asked, dict):
                raise RefilError("a request must be a JSON object")
            return reply(await run_in_threadpool(answer, asked))
        except RefilError as error:
            return complaint(_short(str(error)), 400)
        except (ValueError, RecursionError) as error:  # not JSON, or not UTF-8
            return complaint(_short(f"the request is not JSON: {error}"), 400)
        except Exception as error:
            if type(error).__module__.startswith("refil.lab"):  # the guard answers
                raise
            traceback.print_exc(file=sys.stderr)
            return complaint(_short(f"the lab failed: {type(error).__name__}: {error}"), 500)

    return endpoint


def _short(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}..."


def _list(asked: dict[str, Any], name: str) -> list[Any]:
    if not isinstance(asked.get(name), list):
        raise RefilError(f"{name} must be a list")
    _check_number(asked[name])
    return asked[name]


def _check_number(units: list[Any]) -> None:
    if len(units) > 2 * field.SIZES[-1]:
        raise RefilError(f"{len(units):,} units are too many; the lab has room for {field.SIZES[-1]} on each side")


def _seed(asked: dict[str, Any]) -> int:
    seed = asked.get("seed")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_INT:
        raise RefilError(f"the seed must be a whole number from 0 to {MAX_INT:,}, not {seed!r}")
    return seed
