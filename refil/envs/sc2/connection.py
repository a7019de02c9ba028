"""The connection to a running game: one request, one response, and an error that says what happened otherwise."""

import time
from contextlib import ExitStack, suppress
from typing import Any

from refil.envs.sc2 import install
from refil.envs.sc2.process import HOST, GameProcess
from refil.envs.sc2.records import GameCrashedError, GameEndedError, GameRefusedError, GameTimeoutError

RETRY = 0.05  # seconds between two attempts to connect
OPTIONS = {"compression": None, "max_size": None, "ping_interval": None, "proxy": None, "open_timeout": 10, "close_timeout": 1}
SECONDS_TO_REPORT = 1.0  # until the launcher reports a game that has closed the connection


class Connection:
    """Speaks the protocol with the game of a process."""

    def __init__(self, process: GameProcess, launch_timeout: float) -> None:
        self._protocol = install.protocol()
        self._process = process
        self._count = 0
        self._open = ExitStack()
        self._socket = self._connect(launch_timeout)

    def request(self, timeout: float, **content: Any) -> Any:
        """Send a request with one field, such as `step=RequestStep(count=8)`, and return the field of the response."""
        ((name, _),) = content.items()
        self._count += 1
        try:
            self._socket.send(self._protocol.api.Request(id=self._count, **content).SerializeToString())
            answer = self._socket.recv(timeout)
        except TimeoutError as error:
            message = f"StarCraft II did not answer the request {name} within {timeout:g} s; {self._process.last_lines()}"
            raise GameTimeoutError(message) from error
        except (OSError, self._protocol.WebSocketException) as error:
            raise self._crash(f"during the request {name}") from error
        return self._parse(name, answer)

    def send_quit(self) -> None:
        """Ask the game to end, which it does without a response."""
        with suppress(OSError, self._protocol.WebSocketException):  # it has ended already
            self._socket.send(self._protocol.api.Request(quit=self._protocol.api.RequestQuit()).SerializeToString())

    def close(self) -> None:
        """Close the connection; that takes no time once the game has ended."""
        with suppress(OSError, self._protocol.WebSocketException):
            self._open.close()

    def _parse(self, name: str, answer: Any) -> Any:
        response = self._protocol.api.Response()
        try:
            response.ParseFromString(answer)
            valid = isinstance(answer, bytes) and response.id in (0, self._count)
            valid = valid and bool(response.HasField(name) or response.error)
        except (self._protocol.DecodeError, TypeError):
            valid = False
        if not valid:
            raise GameCrashedError(f"StarCraft II answered the request {name} with something that is not its protocol")
        if response.error:
            if response.status == self._protocol.api.ended:
                raise GameEndedError(f"the game of StarCraft II has ended: {'; '.join(response.error)}")
            raise GameRefusedError(f"StarCraft II refused the request {name}: {'; '.join(response.error)}")
        return getattr(response, name)

    def _connect(self, timeout: float) -> Any:
        deadline, url = time.monotonic() + timeout, f"ws://{HOST}:{self._process.port}/sc2api"
        while True:
            if self._process.exit_code() is not None:
                raise self._crash(f"before it opened port {self._process.port}")
            if self._process.listens():  # another program may have taken the port in the meantime
                with suppress(OSError, self._protocol.WebSocketException):  # it opens its port after some seconds
                    return self._open.enter_context(self._protocol.connect(url, **OPTIONS))
            if time.monotonic() > deadline:
                message = f"StarCraft II did not open port {self._process.port} within {timeout:g} s"
                raise GameTimeoutError(f"{message}; {self._process.last_lines()}")
            time.sleep(RETRY)

    def _crash(self, when: str) -> GameCrashedError:
        code = self._process.exit_code(SECONDS_TO_REPORT)
        happened = "closed the connection" if code is None else f"ended with exit code {code}"
        return GameCrashedError(f"StarCraft II {happened} {when}; {self._process.last_lines()}")
