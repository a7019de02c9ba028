"""Finding the game: what is missing is said in one sentence."""

import builtins

import pytest

from refil.envs.sc2 import install
from refil.envs.sc2.records import InstallError


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("SC2PATH", str(tmp_path))
    for build in (69232, 75689):
        path = tmp_path / "Versions" / f"Base{build}" / "SC2_x64"
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    (tmp_path / "Maps" / "SMAC_Maps").mkdir(parents=True)
    (tmp_path / "Maps" / install.MAP).write_bytes(b"map")
    return tmp_path


def test_the_newest_build_is_the_default(root):
    found = install.find()
    assert found.executable == root.resolve() / "Versions" / "Base75689" / "SC2_x64"
    assert (found.map_path, found.map_data) == ("SMAC_Maps/empty_passive.SC2Map", b"map")
    assert install.find(69232).executable.parent.name == "Base69232"


def test_without_the_game_the_error_says_what_to_set(monkeypatch, tmp_path):
    monkeypatch.delenv("SC2PATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InstallError, match="StarCraft II was not found: set SC2PATH to its folder"):
        install.find()
    monkeypatch.setenv("SC2PATH", str(tmp_path / "nowhere"))
    with pytest.raises(InstallError, match="nowhere, which is not a folder"):
        install.find()


def test_a_missing_executable_is_named(root):
    for path in (root / "Versions").rglob("SC2_x64"):
        path.chmod(0o644)
    with pytest.raises(InstallError, match="Base75689/SC2_x64 is not executable"):
        install.find()
    for path in (root / "Versions").rglob("SC2_x64"):
        path.unlink()
    with pytest.raises(InstallError, match=r"contains no Versions/Base\*/SC2_x64"):
        install.find()


def test_another_map_is_a_warning_and_that_of_a_peer_is_not(root, caplog):
    for _ in range(2):
        install.find()
    assert [record.getMessage().partition(": ")[2][:21] for record in caplog.records] == ["its SHA-256 is 60be98"]
    caplog.clear()
    (root / "Maps" / install.MAP).write_bytes(install.NOT_A_MAP)
    install.find()
    assert not caplog.records


def test_builds_to_choose_from_are_listed(root):
    with pytest.raises(InstallError, match=r"build 1 of StarCraft II is not in .*; available: 69232, 75689"):
        install.find(1)


def test_a_missing_map_is_named_with_the_place_where_it_belongs(root):
    (root / "Maps" / install.MAP).unlink()
    with pytest.raises(InstallError, match=r"Maps/SMAC_Maps/empty_passive.SC2Map is missing; copy"):
        install.find()


def test_a_missing_library_is_an_extra_to_install(monkeypatch):
    def importing(name, *rest):
        if name.startswith("s2clientprotocol"):
            raise ImportError(name)
        return original(name, *rest)

    original = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", importing)
    with pytest.raises(InstallError, match=r"pip install 'refil\[sc2\]'"):
        install.protocol()
