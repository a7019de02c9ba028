"""Stands in for the game's executable: passes the bytes of its port on to a peer; needs only the standard library.

    python relay.py PEER_PORT -listen 127.0.0.1 -port PORT ...

It ends when the peer closes a connection, as the game's process ends when the game quits or crashes.
"""

import socket
import sys
import threading

HOST = "127.0.0.1"


def main(peer_port: int, port: int) -> int:
    """Relay connections until the peer closes one; return the exit code."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            print(f"relay: cannot listen on port {port}: {error.strerror}", flush=True)
            return 1
        listener.listen()
        print(f"relay: listening on port {port}", flush=True)
        client, _ = listener.accept()
    try:
        peer = socket.create_connection((HOST, peer_port))
    except OSError as error:
        print(f"relay: no peer on port {peer_port}: {error.strerror}", flush=True)
        return 1
    for end in (client, peer):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    forth = threading.Thread(target=_pass_on, args=(client, peer), daemon=True)
    forth.start()
    _pass_on(peer, client)
    print("relay: the peer closed the connection", flush=True)
    return 1


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[sys.argv.index("-port") + 1])))
