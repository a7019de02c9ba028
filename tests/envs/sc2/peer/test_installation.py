"""The folder that looks like an installation of the game."""

import socket

import pytest

from refil.envs.sc2 import install
from refil.envs.sc2.peer import installation
from refil.envs.sc2.process import HOST
from refil.errors import RefilError


def test_the_client_finds_what_was_written(tmp_path, monkeypatch):
    installation.write(tmp_path, 5000)
    installation.write(tmp_path, 6000)
    monkeypatch.setenv("SC2PATH", str(tmp_path))
    found = install.find()
    assert found.map_data == install.NOT_A_MAP
    assert " 6000 " in found.executable.read_text()


def test_a_real_installation_is_not_overwritten(tmp_path):
    game = tmp_path / "Versions" / "Base75689" / "SC2_x64"
    game.parent.mkdir(parents=True)
    game.write_text("the game")
    with pytest.raises(RefilError, match="contains StarCraft II; choose another folder"):
        installation.write(tmp_path, 5000)
    assert game.read_text() == "the game"


def test_a_real_map_is_not_overwritten(tmp_path):
    path = tmp_path / "Maps" / install.MAP
    path.parent.mkdir(parents=True)
    path.write_bytes(b"a map")
    with pytest.raises(RefilError, match="contains StarCraft II"):
        installation.write(tmp_path, 5000)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RefilError, match=r"cannot write .*file"):
        installation.write(tmp_path / "file", 5000)


def test_a_folder_that_another_peer_serves_is_refused(tmp_path):
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        installation.write(tmp_path, port)
        installation.write(tmp_path, port)  # by the same peer
        with pytest.raises(RefilError, match=f"another peer serves .* on port {port}; stop it"):
            installation.write(tmp_path, 5000)
    installation.write(tmp_path, 5000)
