"""The stand-in for the game's executable."""

import socket
import subprocess
import sys

from refil.envs.sc2.peer import relay
from refil.envs.sc2.process import HOST, free_port
from tests.envs.sc2.fake_game import wait_until

COMMAND = [sys.executable, "-I", "-S", relay.__file__]


def start(peer_port, port):
    arguments = [str(peer_port), "-listen", HOST, "-port", str(port), "-headlessNoRender"]
    return subprocess.Popen(COMMAND + arguments, stdout=subprocess.PIPE, text=True)


def test_bytes_pass_both_ways_and_the_end_of_the_peer_ends_it():
    with socket.create_server((HOST, 0)) as server:
        port = free_port()
        process = start(server.getsockname()[1], port)
        assert process.stdout.readline() == f"relay: listening on port {port}\n"
        with socket.create_connection((HOST, port)) as client:
            peer, _ = server.accept()
            client.sendall(b"question")
            assert peer.recv(100) == b"question"
            peer.sendall(b"answer")
            assert client.recv(100) == b"answer"
            peer.close()
            assert client.recv(100) == b""
            assert process.wait(20) == 1
    assert process.stdout.read() == "relay: the peer closed the connection\n"
    process.stdout.close()


def test_a_port_in_use_and_a_missing_peer_are_named():
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        process = start(1, port)
        assert process.communicate(timeout=20)[0] == f"relay: cannot listen on port {port}: Address already in use\n"
    dead, port = free_port(), free_port()
    process = start(dead, port)
    process.stdout.readline()
    socket.create_connection((HOST, port)).close()
    assert process.communicate(timeout=20)[0] == f"relay: no peer on port {dead}: Connection refused\n"
    assert wait_until(lambda: process.returncode == 1)
