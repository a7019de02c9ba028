"""The websocket server of a peer: one game for each connection, faults, and a side channel that shows the exact states."""

import json
import socket
import threading
from collections import Counter
from typing import Any

from refil.envs.sc2 import install
from refil.envs.sc2.peer import faults
from refil.envs.sc2.peer.battle import Simulator
from refil.envs.sc2.peer.faults import Fault, Faults
from refil.envs.sc2.peer.session import LAST_TICK, Session
from refil.envs.sc2.process import HOST
from refil.envs.starcraft.env import StarCraft

GARBAGE = b"\xff\xff\xff not the protocol"
SIDE_CHANNEL = "/peer"


class Peer:
    """Plays battles of a simulated environment for any number of clients; a context manager that serves while it is open."""

    def __init__(self, env: StarCraft, planned: tuple[Fault, ...] = (), last_tick: int = LAST_TICK, port: int = 0) -> None:
        self._protocol = install.protocol()
        self.faults = Faults(planned)
        self.sessions: list[Session] = []  # in order of connection
        self.requests: Counter[str] = Counter()  # how many of each kind were received
        self._simulator = Simulator(env)
        self._last_tick = last_tick
        self._lock = threading.Lock()
        self._connections: list[Any] = []
        options = {"compression": None, "max_size": None, "ping_interval": None, "close_timeout": 1}
        self._server = self._protocol.serve(self._serve, HOST, port, **options)
        self._thread = threading.Thread(target=self._server.serve_forever, name="peer", daemon=True)

    @property
    def port(self) -> int:
        """The port that the peer listens on."""
        return self._server.socket.getsockname()[1]

    def __enter__(self) -> "Peer":
        self._simulator.compile()  # takes longer than clients wait for a response
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections:
            _drop(connection)
        self._server.shutdown()
        self._thread.join()

    def _serve(self, connection: Any) -> None:
        with self._lock:
            self._connections.append(connection)
        try:
            if connection.request.path == SIDE_CHANNEL:
                for message in connection:
                    connection.send(json.dumps(self._answer_control(message)))
            else:
                self._play(connection)
        except (OSError, self._protocol.WebSocketException):
            pass  # the client is gone
        finally:
            _drop(connection)

    def _play(self, connection: Any) -> None:
        with self._lock:
            session = Session(self._simulator, len(self.sessions), self._last_tick)
            self.sessions.append(session)
        counts: Counter[str] = Counter()
        while True:  # until the client closes the connection, which raises
            request = self._parse(connection.recv(decode=False))
            name = (request.WhichOneof("request") or "") if request else ""
            counts[name] += 1
            self.requests[name] += 1
            fault = self.faults.take(session.number, name, counts[name])
            answer = _answer(session, request, fault)
            if fault is not None and fault.kind == "delay":
                threading.Event().wait(fault.seconds)
            if fault is not None and fault.kind == "hang":
                while True:
                    connection.recv(decode=False)
            if answer is None:
                return
            connection.send(answer)

    def _parse(self, message: bytes) -> Any:
        # Some clients send these bytes in text frames, although they are not UTF-8.
        request = self._protocol.api.Request()
        try:
            request.ParseFromString(message)
        except self._protocol.DecodeError:
            return None
        return request

    def _answer_control(self, message: str | bytes) -> Any:
        try:
            content = json.loads(message)
            return self._control(content) if isinstance(content, dict) else {"error": "the message is not a JSON object"}
        except ValueError as error:  # JSONDecodeError and UnicodeDecodeError too
            return {"error": str(error)}

    def _control(self, message: dict[str, Any]) -> Any:
        """Answer the side channel: the exact `state` of a game, counts of `requests`, and `fault`, which adds one."""
        command = message.pop("command", "")
        if command == "fault":
            if unknown := sorted(message.keys() - Fault.__dataclass_fields__.keys()) or "kind" not in message:
                raise ValueError(f"a fault has {', '.join(Fault.__dataclass_fields__)}, and needs kind; unknown: {unknown}")
            self.faults.add(faults.checked(**message))
            return {}
        if command == "requests":
            return dict(self.requests)
        if command == "state":
            number = message.get("game")
            if not isinstance(number, int) or not 0 <= number < len(self.sessions):
                raise ValueError(f"there is no game {number!r}; games so far: {len(self.sessions)}, numbered from 0")
            battle = self.sessions[number].battle
            state = {name: leaf.tolist() for name, leaf in vars(battle.state).items() if name != "multipliers"}
            return state | {"game_tag": battle.tags.tolist(), "tick": battle.tick}
        return {"error": f"unknown command {command!r}; available: fault, requests, state"}


def _answer(session: Session, request: Any, fault: Fault | None) -> bytes | None:
    kind = fault.kind if fault is not None else ""
    if kind == "crash":
        return None
    if kind == "garbage" or request is None:
        return GARBAGE
    if kind == "refuse":
        return session.refuse(request).SerializeToString()
    response = session.handle(request)
    if kind == "end" and response is not None:
        session.end()
        response.status = session.status
    return None if response is None else response.SerializeToString()


def _drop(connection: Any) -> None:
    try:
        connection.socket.shutdown(socket.SHUT_RDWR)
    except OSError:
        connection.socket.close()
