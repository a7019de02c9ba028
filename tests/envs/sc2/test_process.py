"""The process of a game."""

import socket

from refil.envs.sc2 import process
from refil.envs.sc2.process import GameProcess
from tests.envs.sc2.fake_game import executable, own_games, wait_until


def test_the_command_line_is_that_of_a_headless_game(tmp_path):
    installation = executable(tmp_path, "print(sys.argv[1:], flush=True)")
    game = GameProcess(installation)
    assert game.exit_code(20.0) == 0
    expected = ["-listen", "127.0.0.1", "-port", str(game.port), "-dataDir", f"{tmp_path}/", "-tempDir", f"{game.folder}/"]
    assert game.last_lines() == f"its last lines are: {[*expected, '-headlessNoRender']}"
    game.end()


def test_the_exit_code_and_the_last_lines_of_a_game_that_ended_are_known(tmp_path):
    game = GameProcess(
        executable(tmp_path, "[print(line) for line in range(9)]; print('no license', file=sys.stderr); sys.exit(3)")
    )
    assert game.exit_code(20.0) == 3
    assert game.exit_code() == 3
    assert "no license" in game.last_lines()
    game.end()
    assert not game.folder.exists()


def test_an_executable_that_cannot_run_is_reported(tmp_path):
    installation = executable(tmp_path, "")
    installation.executable.write_bytes(b"\x7fELF but not really")
    game = GameProcess(installation)
    assert game.exit_code(20.0) == 127
    assert game.last_lines() == f"its last lines are: cannot run {installation.executable}: Exec format error"
    game.end()


def test_ending_a_game_leaves_no_process(tmp_path):
    game = GameProcess(executable(tmp_path, "time.sleep(1000)"))
    game.end()
    assert wait_until(lambda: not own_games())
    assert not game.folder.exists()


def test_a_free_port_is_one_that_can_be_used():
    with socket.socket() as server:
        server.bind((process.HOST, process.free_port()))


def test_games_of_one_process_never_get_the_same_port(monkeypatch):
    offered = iter([4000, 4000, 4001])
    monkeypatch.setattr(process, "free_port", lambda: next(offered))
    try:
        assert [process.take_port(), process.take_port()] == [4000, 4001]
    finally:
        process._ports_in_use.difference_update({4000, 4001})


def test_a_port_is_free_again_after_the_game(tmp_path):
    game = GameProcess(executable(tmp_path, "time.sleep(1000)"))
    assert game.port in process._ports_in_use
    game.end()
    assert game.port not in process._ports_in_use


def test_only_the_game_s_own_socket_counts_as_listening(tmp_path):
    open_port = "server = socket.create_server(('127.0.0.1', port)); time.sleep(1000)"
    listening, silent = (GameProcess(executable(path, code)) for path, code in folders(tmp_path, open_port, "time.sleep(1000)"))
    with socket.create_server((process.HOST, silent.port)):
        assert wait_until(listening.listens)
        assert not silent.listens()
    for game in (listening, silent):
        game.end()


def folders(root, *codes):
    for number, code in enumerate(codes):
        (root / str(number)).mkdir()
        yield root / str(number), code
