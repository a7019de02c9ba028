"""A folder that looks like an installation of the game, whose executable is a relay to a peer."""

import re
import socket
import sys
from pathlib import Path

from refil.envs.sc2.install import EXECUTABLE, MAP, NOT_A_MAP
from refil.envs.sc2.peer import relay
from refil.envs.sc2.process import HOST
from refil.errors import RefilError


def write(folder: Path, port: int) -> None:
    """Write the executable and the map; `SC2PATH` then makes every client use the peer on this port."""
    executable, map_path = folder / "Versions" / "Base0" / EXECUTABLE, folder / "Maps" / MAP
    others = [path for path in (folder / "Versions").glob("*") if path != executable.parent]
    if others or (map_path.exists() and map_path.read_bytes() != NOT_A_MAP):
        raise RefilError(f"{folder} contains StarCraft II; choose another folder for the peer")
    if (other := _port_of(executable)) not in (None, port) and _is_served(other):
        raise RefilError(f"another peer serves {folder} on port {other}; stop it, or choose another folder")
    try:
        for path in (executable, map_path):
            path.parent.mkdir(parents=True, exist_ok=True)
        executable.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{relay.__file__}" {port} "$@"\n')
        executable.chmod(0o755)
        map_path.write_bytes(NOT_A_MAP)
    except OSError as error:
        raise RefilError(f"cannot write {folder}: {error.strerror}") from error


def _port_of(executable: Path) -> int | None:
    """Return the port of the peer that an earlier executable leads to."""
    try:
        found = re.search(r' (\d+) "\$@"', executable.read_text())
    except (OSError, UnicodeDecodeError):
        return None
    return int(found[1]) if found else None


def _is_served(port: int | None) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return port is not None and probe.connect_ex((HOST, port)) == 0
