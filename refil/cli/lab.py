"""Open the lab: a page in the browser on which you compose battles and watch trained teams, scripts and episodes."""

import contextlib
import socket
import threading
import webbrowser
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import tyro

from refil import settings
from refil.cli import _signals
from refil.errors import RefilError, needs_extra
from refil.settings import NonNegativeInt

HOST = "127.0.0.1"  # reachable from this machine only
LARGEST_PORT = 65_535


@dataclass(frozen=True)
class LabArgs:
    """The team, run or environment to offer besides the shipped teams, and the page's port."""

    # Team, folder of a run, environment, or path of a .py file
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]", help_behavior_hint="")] = None
    port: NonNegativeInt = 0  # Port of the page on this machine (0: any free one)
    open: bool = False  # Open the page in the browser
    model: NonNegativeInt | None = None  # Training seed whose model plays (None: the first seed of the run)
    trust: bool = False  # Run the code that the run contains, which somebody else may have written: read it first


def main(arguments: list[str]) -> None:
    """Serve the page until Ctrl-C."""
    args = settings.from_command_line(LabArgs, arguments, "refil lab", __doc__)
    if args.port > LARGEST_PORT:
        raise RefilError(f"--port must be from 0 to {LARGEST_PORT}, not {args.port}")
    with needs_extra("refil lab", "lab", "starlette", "uvicorn"):
        import starlette  # noqa: F401
        import uvicorn
    listening = _listen(args.port)
    port = listening.getsockname()[1]
    from refil.lab import roster, server
    from refil.training import flags

    flags.configure()
    chosen = roster.open_roster(args.name, args.model, args.trust)
    app, lab = server.app(chosen, partial(_hosts, port))
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", server_header=False, ws="none")
    url = f"http://{HOST}:{port}/"
    print(f"The lab is at {url} (Ctrl-C ends it)", flush=True)
    threading.Thread(target=lab.warm_up, daemon=True).start()
    if args.open:
        webbrowser.open(url)
    with _signals.watched(lambda number: _signals.stop("the lab has ended", 0)):
        _serve(uvicorn, config, listening)


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise RefilError(f"port {port} of this machine cannot be used: {error.strerror}; --port 0 takes a free one") from error


def _hosts(port: int) -> set[str]:
    return {f"{name}:{port}" for name in (HOST, "localhost")}


def _serve(uvicorn: Any, config: Any, listening: socket.socket) -> None:
    """Run the server; signals are handled by this command."""
    import asyncio

    running = uvicorn.Server(config)
    running.capture_signals = contextlib.nullcontext
    asyncio.run(running.serve([listening]))
