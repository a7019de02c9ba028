"""The launcher: a game never outlives the process that wants it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

from refil.envs.sc2.process import GameProcess
from tests.envs.sc2.fake_game import descendants, executable, own_games, runs, wait_until

WITH_CHILD = "import subprocess; child = subprocess.Popen(['sleep', '1000']); child.wait()"
STARTER = """
import sys, time
from pathlib import Path
from refil.envs.sc2.install import Installation
from refil.envs.sc2.process import GameProcess
games = [GameProcess(Installation(Path(sys.argv[1]).parent, Path(sys.argv[1]), '', b'')) for _ in range(2)]
print(*(game.folder for game in games), flush=True)
time.sleep(1000)
"""


def started(found: Callable[[], list[int]], processes: int) -> list[int]:
    assert wait_until(lambda: len(found()) >= processes)
    return found()


def test_games_and_what_they_started_die_with_a_parent_that_is_killed(tmp_path):
    game = executable(tmp_path, WITH_CHILD)
    command = [sys.executable, "-c", STARTER, str(game.executable)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    folders = parent.stdout.readline().split()
    pids = started(lambda: descendants(parent.pid), 6)  # a launcher, a game and its child, twice
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert wait_until(lambda: not any(runs(pid) for pid in pids))
    assert wait_until(lambda: not any(os.path.exists(folder) for folder in folders))
    parent.stdout.close()


def test_a_game_dies_with_a_launcher_that_is_killed(tmp_path):
    process = GameProcess(executable(tmp_path, "time.sleep(1000)"))
    launcher, game = started(own_games, 2)
    os.kill(launcher, signal.SIGKILL)
    assert wait_until(lambda: not runs(game))
    assert process.exit_code(5.0) == -9
    process.end()
    assert not process.folder.exists()


def test_a_game_does_not_die_with_the_thread_that_started_it(tmp_path):
    processes = []
    game = executable(tmp_path, "time.sleep(1000)")
    thread = threading.Thread(target=lambda: processes.append(GameProcess(game)))
    thread.start()
    thread.join()
    started(own_games, 2)
    assert processes[0].exit_code(1.0) is None
    processes[0].end()
    assert wait_until(lambda: not own_games())
