"""A peer for tests, an installation that leads to it, and executables that misbehave."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from refil.envs.sc2 import install, launcher
from refil.envs.sc2.client import GameClient, Timeouts
from refil.envs.sc2.install import Installation
from refil.envs.sc2.peer import installation
from refil.envs.sc2.peer.server import Peer
from refil.envs.sc2.records import ALLY, ENEMY, PASSIVE_IDS, Placement
from refil.envs.starcraft import env, scenarios
from refil.envs.starcraft.config import Config

MARINE = 48
TIMEOUTS = Timeouts(launch=20.0, load=20.0, request=20.0)
MARINES = [
    Placement(PASSIVE_IDS["marine"], ALLY, 12.0, 16.0),
    Placement(PASSIVE_IDS["marine"], ALLY, 12.0, 18.0),
    Placement(MARINE, ENEMY, 20.0, 16.0),
]


def marines(**options) -> env.StarCraft:
    """Two Marines against two, without chance."""
    return env.build(scenarios.custom("2m"), Config(jitter=False, **options))


def client(folder: Path, peer: Peer, timeouts: Timeouts = TIMEOUTS) -> GameClient:
    """A client whose game is the peer."""
    return GameClient(installed(folder, peer.port), timeouts=timeouts)


def installed(folder: Path, port: int) -> Installation:
    installation.write(folder, port)
    return install.Installation(folder, folder / "Versions" / "Base0" / install.EXECUTABLE, install.MAP, b"map")


def executable(folder: Path, python: str) -> Installation:
    """An installation whose executable runs this Python code; `port` is the port to listen on."""
    path = folder / install.EXECUTABLE
    prelude = "import os, socket, sys, time\nport = int(sys.argv[sys.argv.index('-port') + 1])\n"
    path.write_text(f"#!{sys.executable}\n{prelude}{python}\n")
    path.chmod(0o755)
    return Installation(folder, path, install.MAP, b"map")


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Return whether a condition becomes true in time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def runs(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def descendants(pid: int) -> list[int]:
    """The processes that a process started, directly or not."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def own_games() -> list[int]:
    """The launchers that this process started and what they started; not, say, a browser that other tests keep open."""
    children = [pid for pid in descendants(os.getpid()) if _is_launcher(pid) or not runs(pid)]
    return children + [pid for child in children for pid in descendants(child)]


def _is_launcher(pid: int) -> bool:
    try:
        return launcher.__file__.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
