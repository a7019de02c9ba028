"""Run the game so that it never outlives the process that wants it; a script that needs only the standard library.

    python launcher.py PARENT FOLDER COMMAND...

Its standard input is a pipe from the parent: when that closes, or when the parent is gone, the launcher kills the game with all
processes that it started, and removes the folder. It prints the exit code of a game that ends by itself. A launcher, because
the kernel's "die with the parent" is bound to the thread that starts a process, and threads of the parent come and go.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

LOG = "game.log"
SECONDS = 0.2  # between two looks at the game and at the parent
SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, an option of prctl


def main(parent: int, folder: Path, command: list[str]) -> None:
    """Run the game until it ends, or the parent closes the pipe or is gone."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    game = None
    try:
        with open(folder / LOG, "ab") as log:
            game = _start(command, log)
        _wait(parent, game)
    finally:
        if game is not None:
            with contextlib.suppress(OSError):
                os.killpg(game.pid, signal.SIGKILL)
            game.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _start(command: list[str], log) -> subprocess.Popen | None:
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, preexec_fn=_die_with_launcher
        )
    except OSError as error:
        log.write(f"cannot run {command[0]}: {error.strerror}\n".encode())
        return None


def _die_with_launcher() -> None:
    with contextlib.suppress(OSError, AttributeError):  # other systems than Linux have no such call
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _wait(parent: int, game: subprocess.Popen | None) -> None:
    reported = False
    while os.getppid() == parent:
        if not reported and (game is None or game.poll() is not None):
            with contextlib.suppress(OSError):
                os.write(1, f"{game.returncode if game else 127}\n".encode())
            reported = True
        if select.select([0], [], [], SECONDS)[0] and not os.read(0, 1024):
            return


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
