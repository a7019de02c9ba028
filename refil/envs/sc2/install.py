"""Find the game's executable and its map below the folder that SC2PATH names."""

import hashlib
import logging
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from refil.envs.sc2.records import InstallError

DEFAULT_ROOT = "~/StarCraftII"  # where the Linux package is usually unpacked
EXECUTABLE = "SC2_x64"
MAP = "SMAC_Maps/empty_passive.SC2Map"
MAP_SHA256 = "ce199420732acd50fed831dc21e971e747f054aebf98912452add5fbdbbb0ce2"  # of the authors' repository
NOT_A_MAP = b"This is not a map: a peer of refil stands in for the game."
LOG = logging.getLogger(__name__)
GUIDE = "docs/starcraft2.md says how to install it"


@dataclass(frozen=True)
class Installation:
    """The files of one version of the game."""

    root: Path
    executable: Path
    map_path: str  # below Maps, as the game wants it
    map_data: bytes


def find(build: int | None = None, map_path: str = MAP) -> Installation:
    """Return the files of a build of the game (75689 is version 4.10), or of the newest one installed."""
    root = find_root()
    map_data = _read_map(root, map_path)
    if map_path == MAP and map_data != NOT_A_MAP:
        _check_map(root, hashlib.sha256(map_data).hexdigest())
    return Installation(root, _find_executable(root, build), map_path, map_data)


def find_root() -> Path:
    """Return the folder of the game."""
    given = os.environ.get("SC2PATH")
    root = Path(given or DEFAULT_ROOT).expanduser().resolve()
    if root.is_dir():
        return root
    if given:
        raise InstallError(f"SC2PATH is {given}, which is not a folder; set it to the folder of StarCraft II. {GUIDE}")
    raise InstallError(f"StarCraft II was not found: set SC2PATH to its folder, which contains Versions and Maps. {GUIDE}")


def protocol() -> SimpleNamespace:
    """Return the modules of the game's protocol and of its connection, which the extra `sc2` installs."""
    try:
        import websockets.exceptions
        import websockets.sync.client
        import websockets.sync.server
        from google.protobuf.message import DecodeError
        from s2clientprotocol import common_pb2, debug_pb2, error_pb2, raw_pb2, sc2api_pb2
    except ImportError as error:
        raise InstallError("StarCraft II needs the extra 'sc2': pip install 'refil[sc2]'") from error
    return SimpleNamespace(
        api=sc2api_pb2,
        common=common_pb2,
        debug=debug_pb2,
        error=error_pb2,
        raw=raw_pb2,
        DecodeError=DecodeError,
        connect=websockets.sync.client.connect,
        serve=websockets.sync.server.serve,
        WebSocketException=websockets.exceptions.WebSocketException,
    )


def _find_executable(root: Path, build: int | None) -> Path:
    folders = [path.parent for path in (root / "Versions").glob(f"Base*/{EXECUTABLE}")]
    builds = {int(folder.name[4:]): folder for folder in folders if folder.name[4:].isdigit()}
    if not builds:
        raise InstallError(f"{root} contains no Versions/Base*/{EXECUTABLE}; set SC2PATH to the Linux build. {GUIDE}")
    if build is not None and build not in builds:
        raise InstallError(f"build {build} of StarCraft II is not in {root}; available: {', '.join(map(str, sorted(builds)))}")
    executable = builds[max(builds) if build is None else build] / EXECUTABLE
    if not os.access(executable, os.X_OK):
        raise InstallError(f"{executable} is not executable; chmod +x makes it so")
    return executable


@cache
def _check_map(root: Path, sha256: str) -> None:
    """Warn, once in a process, of a map that is not the authors'."""
    if sha256 != MAP_SHA256:
        text = "%s is not the map of the authors' repository: its SHA-256 is %s instead of %s; battles may differ."
        LOG.warning(text, root / "Maps" / MAP, sha256, MAP_SHA256)


def _read_map(root: Path, map_path: str) -> bytes:
    candidates = [root / folder / map_path for folder in ("Maps", "maps")]
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        raise InstallError(f"{candidates[0]} is missing; copy {Path(map_path).name} of the authors' repository there. {GUIDE}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InstallError(f"cannot read {path}: {error.strerror}") from error
