"""One game: battles through the protocol, and every way in which a game can fail."""

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from refil.envs.sc2 import client as client_module
from refil.envs.sc2 import process
from refil.envs.sc2.client import GameClient, Timeouts
from refil.envs.sc2.peer.battle import Battle
from refil.envs.sc2.peer.faults import Fault
from refil.envs.sc2.peer.server import Peer
from refil.envs.sc2.records import (
    ALLY,
    ATTACK,
    ENEMY,
    HEAL,
    PASSIVE_IDS,
    STOP,
    Command,
    GameCrashedError,
    GameEndedError,
    GameError,
    GameRefusedError,
    GameSetupError,
    GameTimeoutError,
    Placement,
)
from tests.envs.sc2.fake_game import (
    MARINE,
    MARINES,
    TIMEOUTS,
    client,
    descendants,
    executable,
    installed,
    marines,
    own_games,
    runs,
    wait_until,
)

PLAYER = """
import sys, time
from pathlib import Path
from refil.envs.sc2.client import GameClient
from refil.envs.sc2.install import Installation
root, executable = map(Path, sys.argv[1:])
games = [GameClient(Installation(root, executable, 'map', b'map')) for _ in range(2)]
print(*(game.start().build for game in games), flush=True)
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def peer():
    with Peer(marines()) as peer:
        yield peer


@pytest.fixture
def game(peer, tmp_path):
    game = client(tmp_path, peer)
    yield game
    game.close()


def battle(peer):
    return peer.sessions[-1].battle


def attack(units):
    """Commands with which each Marine attacks the first opponent."""
    commands = []
    for tag, owner in zip(units.tag.tolist(), units.owner.tolist(), strict=True):
        victims = units.tag[units.owner != owner].tolist()
        commands += [Command(ATTACK, (tag,), victim) for victim in victims[:1]]
    return commands


def test_the_map_is_flat_open_and_32_cells_wide(game):
    info = game.start()
    assert info.playable_area == (0, 0, 32, 32)
    assert info.pathing.shape == (32, 32)
    assert info.pathing.all()
    assert not info.terrain_height.any()
    assert game.start() is info
    assert game.launches == 1


def test_a_reset_spawns_exactly_the_units_that_were_placed(game):
    for placements in (MARINES, MARINES[1:], MARINES):
        units = game.reset(placements)
        assert units.type_id.tolist() == [each.type_id for each in placements]
        assert units.owner.tolist() == [each.owner for each in placements]
        np.testing.assert_array_equal(units.x, [each.x for each in placements])
        np.testing.assert_array_equal(units.y, [each.y for each in placements])
        assert (units.health == 45).all()
        assert len(set(units.tag.tolist())) == len(placements)
    assert game.launches == 1


def test_units_at_one_point_are_spread_by_the_game(game):
    same = [Placement(PASSIVE_IDS["marine"], ALLY, 10.0, 10.0)] * 2
    units = game.reset([*same, MARINES[2]])
    apart = np.hypot(units.x[0] - units.x[1], units.y[0] - units.y[1])
    assert 0.74 <= apart <= 0.9  # their bodies have radius 0.375


def test_a_battle_through_the_protocol_equals_the_simulated_one(peer, game):
    units = game.reset(MARINES)
    start = units.tick
    units = game.step([Command(ATTACK, (int(tag),), None, (12.0, 17.0)) for tag in units.tag[units.owner == ENEMY]], 0)
    assert units.tick == start
    for step in range(1, 40):
        units = game.step(attack(units), 8)
        state, alive = battle(peer).state, battle(peer).alive()
        assert units.tick == start + 8 * step
        for name in ("x", "y", "health", "shield", "energy", "cooldown"):
            np.testing.assert_array_equal(getattr(units, name), getattr(state, name)[alive])
        if len(set(units.owner.tolist())) == 1:
            break
    assert set(units.owner.tolist()) == {ALLY}  # two against one


def test_passive_allies_do_nothing_unless_ordered(game):
    allies = [Placement(PASSIVE_IDS["marine"], ALLY, 14.0, 16.0), Placement(MARINE, ENEMY, 17.0, 16.0)]
    units = game.reset(allies)
    for _ in range(3):
        units = game.step([], 8)
    assert units.health[units.owner == ENEMY].tolist() == [45.0]
    assert units.health[units.owner == ALLY].tolist() == [45.0 - 3 * 6.0]  # in ticks 1, 15 and 29 of 30


def test_a_crash_loses_a_battle_and_the_next_reset_launches_the_game_again(peer, game):
    units = game.reset(MARINES)
    peer.faults.add(Fault("crash", "step", game=peer.sessions[-1].number))
    with pytest.raises(GameCrashedError, match="ended with exit code 1 during the request step"):
        game.step(attack(units), 8)
    with pytest.raises(GameError, match="does not run; reset it first"):
        game.step([], 8)
    assert len(game.reset(MARINES)) == 3
    assert game.launches == 2


def test_a_killed_process_is_reported_with_its_exit_code(game):
    game.reset(MARINES)
    os.kill(own_games()[-1], signal.SIGKILL)
    with pytest.raises(GameCrashedError, match="ended with exit code -9 during the request"):
        game.step([], 8)
    assert len(game.reset(MARINES)) == 3


def test_a_game_that_hangs_is_killed_and_replaced(peer, tmp_path):
    game = client(tmp_path, peer)
    game.reset(MARINES)
    game.timeouts = Timeouts(request=0.5)
    first = own_games()
    peer.faults.add(Fault("hang", "observation", game=peer.sessions[-1].number))
    with pytest.raises(GameTimeoutError, match=r"did not answer the request observation within 0.5 s"):
        game.step([], 8)
    assert not any(runs(pid) for pid in first)
    game.timeouts = TIMEOUTS
    assert len(game.reset(MARINES)) == 3
    game.close()


def test_garbage_loses_only_the_battle(peer, game):
    game.reset(MARINES)
    peer.faults.add(Fault("garbage", "action", game=peer.sessions[-1].number))
    with pytest.raises(GameCrashedError, match="answered the request action with something that is not its protocol"):
        game.step([Command(ATTACK, (1,), 2)], 8)
    assert len(game.reset(MARINES)) == 3


@pytest.mark.parametrize("kind", ["crash", "refuse", "garbage", "end"])
@pytest.mark.parametrize("request_name", ["ping", "debug"])
def test_a_reset_survives_a_failure_of_its_own(peer, game, kind, request_name):
    peer.faults.add(Fault(kind, request_name))
    assert len(game.reset(MARINES)) == 3
    assert game.launches <= 2


def test_a_reset_gives_up_after_three_launches(peer, game):
    for _ in range(3):
        peer.faults.add(Fault("refuse", "create_game"))
    with pytest.raises(GameRefusedError, match="refused the request create_game"):
        game.reset(MARINES)
    assert game.launches == 3
    assert wait_until(lambda: not own_games())


def test_a_game_that_ended_is_replaced(peer, game):
    game.reset(MARINES)
    peer.faults.add(Fault("end", "step", game=peer.sessions[-1].number))
    with pytest.raises(GameEndedError, match="has ended at tick"):
        game.step([], 8)
    assert len(game.reset(MARINES)) == 3


def test_a_game_is_replaced_before_its_last_tick(peer, game, monkeypatch):
    monkeypatch.setattr(client_module, "LAST_TICK", 40)
    monkeypatch.setattr(client_module, "RESERVE", 20)
    game.reset(MARINES)
    game.step([], 16)
    assert game.launches == 1
    units = game.reset(MARINES)
    assert game.launches == 2
    assert units.tick < 16


def test_a_game_ends_at_its_last_tick(tmp_path):
    with Peer(marines(), last_tick=30) as peer:
        game = client(tmp_path, peer)
        game.reset(MARINES)
        with pytest.raises(GameEndedError, match="the game of StarCraft II has ended at tick 38"):
            game.step([], 32)
        assert len(game.reset(MARINES)) == 3
        game.close()


def test_commands_that_the_game_refuses_are_counted_and_named_once(peer, game, caplog, monkeypatch):
    monkeypatch.setattr(client_module, "_warned", set())
    (tag, _, enemy) = game.reset(MARINES).tag.tolist()
    for _ in range(2):  # an unknown ability, an unknown unit, and one that the mask of actions allows
        game.step([Command(999, (tag,)), Command(STOP, (12345,)), Command(HEAL, (tag,), enemy)], 0)
    assert game.refused == {"NotSupported": 2, "Error": 2}
    assert [record.getMessage().split(" to ")[0] for record in caplog.records] == [
        "StarCraft II refused a command: NotSupported",
        "StarCraft II refused a command: Error",
    ]


def test_a_launch_after_a_failure_has_a_message_and_another_seed(peer, game, caplog):
    peer.faults.add(Fault("refuse", "debug"))
    game.reset(MARINES)
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [
        "A game failed before a battle and is launched again (1 of 2)"
    ]


def test_a_map_without_the_unit_types_is_not_launched_again(peer, game, monkeypatch):
    monkeypatch.setattr(Battle, "spawn", lambda battle, placements: None)  # the game ignores types that it does not have
    with pytest.raises(GameSetupError, match=r"did not spawn the units.*missing \{\(1939, 1\): 2, \(48, 2\): 1\}"):
        game.reset(MARINES)
    assert game.launches == 1


def test_units_that_the_map_does_not_have_are_named(game):
    with pytest.raises(GameRefusedError, match="unit type 999 is not among those"):
        game.reset([Placement(999, ALLY, 1.0, 1.0)])


def test_a_port_that_is_in_use_is_not_fatal(peer, game, monkeypatch):
    with socket.socket() as server:
        server.bind((process.HOST, 0))
        server.listen()
        busy = [server.getsockname()[1]]
        original = process.free_port
        monkeypatch.setattr(process, "free_port", lambda: busy.pop() if busy else original())
        assert len(game.reset(MARINES)) == 3
    assert game.launches == 2


def test_a_game_never_plays_in_another_program_that_has_taken_its_port(peer, game, monkeypatch):
    with Peer(marines()) as other:
        ports = [other.port]
        original = process.free_port
        monkeypatch.setattr(process, "free_port", lambda: ports.pop() if ports else original())
        before = len(peer.sessions)
        assert len(game.reset(MARINES)) == 3
        assert game.launches == 2
        assert other.sessions == []  # although it speaks the protocol and listens on the port
        assert len(peer.sessions) == before + 1


def test_a_port_that_stays_in_use_is_named(peer, game, monkeypatch):
    with socket.socket() as server:
        server.bind((process.HOST, 0))
        server.listen()
        port = server.getsockname()[1]
        monkeypatch.setattr(process, "free_port", lambda: port)
        with pytest.raises(GameCrashedError, match=f"cannot listen on port {port}: Address already in use"):
            game.reset(MARINES)


def test_games_start_and_play_in_parallel(peer, tmp_path):
    games = [client(tmp_path, peer) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(lambda game: game.reset(MARINES), games))
        after = list(pool.map(lambda game: game.step([], 8), games))
        list(pool.map(GameClient.close, games))
    assert [len(units) for units in started] == [3] * 4
    assert [units.tick - first.tick for first, units in zip(started, after, strict=True)] == [8] * 4
    assert wait_until(lambda: not own_games())


def test_closing_a_game_twice_is_fine_and_leaves_no_process(game):
    game.reset(MARINES)
    game.close()
    game.close()
    assert wait_until(lambda: not own_games())
    assert len(game.reset(MARINES)) == 3


def test_games_die_with_a_client_that_is_killed(peer, tmp_path):
    path = installed(tmp_path, peer.port).executable
    player = subprocess.Popen([sys.executable, "-c", PLAYER, tmp_path, path], stdout=subprocess.PIPE, text=True)
    assert player.stdout.readline() == "0 0\n"
    pids = descendants(player.pid)
    assert len(pids) == 4  # a launcher and a game, twice
    player.send_signal(signal.SIGKILL)
    player.wait()
    player.stdout.close()
    assert wait_until(lambda: not any(runs(pid) for pid in pids))


def test_a_game_that_never_starts_is_reported_and_leaves_nothing(tmp_path):
    game = GameClient(executable(tmp_path, "sys.exit('license expired')"))
    with pytest.raises(GameCrashedError, match="license expired"):
        game.start()
    assert game.launches == 3
    assert wait_until(lambda: not own_games())
