"""The process of one game: its command line, its port, its exit code, and the last lines that it printed."""

import contextlib
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from refil.envs.sc2 import launcher
from refil.envs.sc2.install import Installation
from refil.envs.sc2.records import GameCrashedError

HOST = "127.0.0.1"
LOG_LINES = 5  # quoted in errors
SECONDS_TO_END = 5.0  # after which a launcher that does not end is killed
LISTENING = "0A"  # state of a socket in /proc/net/tcp
_ports_in_use: set[int] = set()  # of all games of this process, some of which may not have opened theirs yet
_lock = threading.Lock()


class GameProcess:
    """A game in a process of its own, which ends with `end`, with this process, or by itself."""

    def __init__(self, installation: Installation) -> None:
        self.port = take_port()
        self.folder = Path(tempfile.mkdtemp(prefix="refil-sc2-"))
        self._exit_code: int | None = None
        command = [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid()), str(self.folder)]
        try:
            self._launcher = subprocess.Popen(
                command + command_line(installation, self.port, self.folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C in a terminal is for this process, which then ends the game
                cwd=installation.root,
            )
        except OSError as error:
            self._clean_up()
            raise GameCrashedError(f"cannot start StarCraft II: {error.strerror}") from error

    def exit_code(self, seconds: float = 0.0) -> int | None:
        """Return the exit code of a game that has ended by itself, waiting this long for it, or None while it runs."""
        output = self._launcher.stdout
        if self._exit_code is None and output and not output.closed and select.select([output], [], [], seconds)[0]:
            line = os.read(output.fileno(), 64).split()
            self._exit_code = int(line[0]) if line else -9  # without a line, the launcher itself was killed
        return self._exit_code

    def listens(self) -> bool:
        """Return whether the game, or a process that it started, listens on its port; other programs may do so instead.

        Systems without /proc cannot tell, and the game counts as listening.
        """
        try:
            sockets = {f"socket:[{inode}]" for inode in _listening_sockets(self.port)}
        except OSError:
            return True
        return bool(sockets) and any(sockets & _open_files(pid) for pid in _session_of_child(self._launcher.pid))

    def last_lines(self) -> str:
        """Return a phrase with the last lines that the game printed."""
        try:
            lines = (self.folder / launcher.LOG).read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        lines = [line.strip() for line in lines if line.strip()][-LOG_LINES:]
        return f"its last lines are: {' | '.join(lines)}" if lines else "it printed nothing"

    def end(self) -> None:
        """Kill the game and everything that it started, and remove its files."""
        for stream in (self._launcher.stdin, self._launcher.stdout):
            with contextlib.suppress(OSError):
                if stream:
                    stream.close()
        try:
            self._launcher.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._launcher.kill()
            self._launcher.wait()
        self._clean_up()

    def _clean_up(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        with _lock:
            _ports_in_use.discard(self.port)


def command_line(installation: Installation, port: int, folder: Path) -> list[str]:
    """Return the command that starts the game without graphics."""
    return [
        str(installation.executable),
        *("-listen", HOST),
        *("-port", str(port)),
        *("-dataDir", f"{installation.root}/"),
        *("-tempDir", f"{folder}/"),
        "-headlessNoRender",
    ]


def free_port() -> int:
    """Return a port that no process listens on at the moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def take_port() -> int:
    """Return a free port that no other game of this process has, and reserve it."""
    with _lock:
        while (port := free_port()) in _ports_in_use:
            pass
        _ports_in_use.add(port)
    return port


def _listening_sockets(port: int) -> Iterator[str]:
    """Yield the inodes of the sockets on which any process listens on a port."""
    for table in (Path("/proc/net/tcp"), *Path("/proc/net").glob("tcp6")):
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _session_of_child(launcher: int) -> list[int]:
    """Return the game and what it started: the processes in the session of the launcher's child."""
    sessions, children = {}, set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has just ended
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                sessions[int(entry.name)] = int(fields[3])
                children |= {int(entry.name)} if int(fields[1]) == launcher else set()
    return [pid for pid, session in sessions.items() if session in children or pid in children]


def _open_files(pid: int) -> set[str]:
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(entry.path))
    return found
