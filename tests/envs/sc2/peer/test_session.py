"""Requests and responses of one game."""

import pytest

from refil.envs.sc2 import install, messages
from refil.envs.sc2.peer.battle import Simulator
from refil.envs.sc2.peer.session import Session
from refil.envs.sc2.records import ALLY, ATTACK, ENEMY, PASSIVE_IDS, Command, Placement
from tests.envs.sc2.fake_game import MARINE, marines

protocol = install.protocol()
api = protocol.api
RAW = api.InterfaceOptions(raw=True)
PAIR = [Placement(PASSIVE_IDS["marine"], ALLY, 12.0, 16.0), Placement(MARINE, ENEMY, 20.0, 16.0)]


@pytest.fixture(scope="module")
def simulator():
    return Simulator(marines())


def ask(session, **content):
    return session.handle(api.Request(id=7, **content))


def created(setup=(api.Participant, api.Computer), path="map"):
    players = [api.PlayerSetup(type=kind) for kind in setup]
    return api.RequestCreateGame(local_map=api.LocalMap(map_path=path), player_setup=players)


@pytest.fixture
def playing(simulator):
    session = Session(simulator, 0)
    assert ask(session, create_game=created()).status == api.init_game
    joined = ask(session, join_game=api.RequestJoinGame(options=RAW))
    assert (joined.status, joined.join_game.player_id) == (api.in_game, ALLY)
    ask(session, debug=api.RequestDebug(debug=messages.create_units(PAIR)))
    return session


def observe(session):
    return ask(session, observation=api.RequestObservation())


def test_every_response_has_the_id_and_the_status(simulator):
    answer = ask(Session(simulator, 0), ping=api.RequestPing())
    assert (answer.id, answer.status, answer.ping.game_version) == (7, api.launched, "refil simulator")


def test_requests_out_of_order_are_errors(simulator):
    session = Session(simulator, 0)
    for name, content in {"join_game": api.RequestJoinGame(), "observation": api.RequestObservation()}.items():
        answer = ask(session, **{name: content})
        assert list(answer.error) == [f"request {name} is not valid in status launched"]
        assert not answer.HasField(name)


def test_requests_that_a_peer_does_not_have_are_errors(playing):
    assert list(ask(playing, save_map=api.RequestSaveMap()).error) == ["request save_map is not supported"]
    assert list(ask(playing).error) == ["request (empty) is not supported"]


def test_a_game_without_a_map_or_with_other_players_is_not_created(simulator):
    answer = ask(Session(simulator, 0), create_game=created(path=""))
    assert answer.create_game.error == api.ResponseCreateGame.MissingMap
    answer = ask(Session(simulator, 0), create_game=created(setup=(api.Participant,)))
    assert answer.create_game.error == api.ResponseCreateGame.InvalidPlayerSetup
    assert answer.status == api.launched


def test_observations_show_the_living_units(playing):
    ally, enemy = observe(playing).observation.observation.raw_data.units
    assert (ally.unit_type, ally.owner, ally.alliance, ally.pos.x, ally.health) == (1939, 1, 1, 12.0, 45.0)
    assert (enemy.unit_type, enemy.owner, enemy.alliance, enemy.health_max) == (48, 2, 4, 45.0)
    assert ally.radius == enemy.radius == 0.375
    playing.battle.state.health[0] = 0.0
    assert len(observe(playing).observation.observation.raw_data.units) == 1


def test_actions_are_answered_one_by_one(playing):
    ally, enemy = (unit.tag for unit in observe(playing).observation.observation.raw_data.units)
    commands = [Command(ATTACK, (ally,), enemy), Command(ATTACK, (enemy,), ally), Command(999, (ally,))]
    request = api.RequestAction(actions=[messages.unit_command(command) for command in commands])
    assert list(ask(playing, action=request).action.result) == [1, 87, 2]  # success, cannot control, not supported
    ask(playing, debug=api.RequestDebug(debug=[messages.control_enemy()]))
    assert list(ask(playing, action=request).action.result) == [1, 1, 2]


def test_units_that_the_simulation_does_not_have_are_an_error(playing):
    request = api.RequestDebug(debug=messages.create_units([Placement(73, ENEMY, 1.0, 1.0)]))
    assert list(ask(playing, debug=request).error) == ["unit type 73 is not among those of the simulated battles"]


def test_a_game_ends_at_its_last_tick(simulator, playing):
    playing.last_tick = 16
    assert ask(playing, step=api.RequestStep(count=8)).status == api.in_game
    assert ask(playing, step=api.RequestStep(count=8)).status == api.ended
    assert observe(playing).observation.player_result[0].player_id == ALLY
    assert list(ask(playing, step=api.RequestStep(count=8)).error) == ["request step is not valid in status ended"]


def test_quit_has_no_response(playing):
    assert ask(playing, quit=api.RequestQuit()) is None


def test_nobody_joins_without_raw_observations(simulator):
    session = Session(simulator, 0)
    ask(session, create_game=created())
    answer = ask(session, join_game=api.RequestJoinGame(options=api.InterfaceOptions(score=True)))
    assert answer.join_game.error == api.ResponseJoinGame.MissingOptions
    assert answer.status == api.init_game


def test_a_command_can_be_one_for_several_units(playing):
    tags = tuple(unit.tag for unit in observe(playing).observation.observation.raw_data.units)
    request = api.RequestAction(actions=[messages.unit_command(Command(ATTACK, tags, position=(3.0, 4.0)))])
    assert list(ask(playing, action=request).action.result) == [87]  # the enemy's unit is not ours yet
    ask(playing, debug=api.RequestDebug(debug=[messages.control_enemy()]))
    assert list(ask(playing, action=request).action.result) == [1]
    assert playing.battle.state.goal_x[[0, 2]].tolist() == [3.0, 3.0]
