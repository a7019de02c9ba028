"""`refil sc2-peer`."""

import os
import signal
import subprocess
import sys

import pytest

from refil.envs.sc2 import install
from refil.envs.sc2.client import GameClient
from refil.envs.sc2.records import GameCrashedError
from tests.envs.sc2.fake_game import MARINES


def play(game, steps):
    for _ in range(steps):
        game.step([], 8)


@pytest.mark.slow
def test_the_command_serves_games_until_it_is_stopped(tmp_path, monkeypatch):
    command = [sys.executable, "-m", "refil", "sc2-peer", str(tmp_path), "--env", "2m", "--fault", "crash:step:20"]
    peer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert peer.stdout.readline().startswith("serving 2m on port ")
        monkeypatch.setenv("SC2PATH", str(tmp_path))
        game = GameClient(install.find())
        game.reset(MARINES)
        with pytest.raises(GameCrashedError):
            play(game, 20)
        assert len(game.reset(MARINES)) == 3
        game.close()
    finally:
        peer.send_signal(signal.SIGINT)
        assert peer.wait(20) == 130
        peer.stdout.close()


def test_bad_options_are_refused_before_anything_is_compiled(refil, tmp_path):
    folder = str(tmp_path / "x")
    assert "'explode' is not a fault" in refil("sc2-peer", folder, "--fault", "explode")[1]
    assert "group_matching has no battles of the simulator" in refil("sc2-peer", folder, "--env", "group_matching")[1]
    _, errors, code = refil("sc2-peer", folder, "--env", "3-8xyz")
    assert (code, "unknown env" in errors) == (2, True)
    assert not (tmp_path / "x").exists()
