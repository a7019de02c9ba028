"""Stand in for StarCraft II: speak its protocol and play the simulator behind it, to test without the game."""

import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from refil import plugins, settings
from refil.errors import RefilError
from refil.settings import NonNegativeInt

HELP = """Stand in for StarCraft II: speak its protocol and play the simulator behind it, to test without the game.

    refil sc2-peer fake-sc2 --env 3-8sz
    SC2PATH=fake-sc2 refil train sc2:3-8sz --method refil

SC2PATH then leads every client to an executable and a map in that folder which stand in for the game's: the executable passes
its connection on to this command, which serves any number of games until Ctrl-C. docs/starcraft2.md says what that shows."""


@dataclass(frozen=True)
class PeerArgs:
    """The folder, the battles and the faults."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]  # Folder to use as SC2PATH
    env: str = "3-8sz"  # Task set, map or armies of the simulator, whose unit types and army sizes games can have
    jitter: bool = True  # Weapon cooldowns vary randomly by a tick or two
    acceleration: bool = True  # Medivacs take time to reach full speed
    port: NonNegativeInt = 0  # Port to serve on (0: a free one)
    # Fault as KIND:REQUEST:COUNT:GAME:SECONDS, such as crash:step:20 or delay:step:20:any:1.5, where KIND is crash, hang,
    # delay, refuse, end or garbage, and GAME is any or a number from 0 on; parts left out are step:1:any:1; repeatable
    fault: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()


def main(arguments: list[str]) -> None:
    """Run the command."""
    args = settings.from_command_line(PeerArgs, arguments, "refil sc2-peer", HELP)
    from refil.envs.sc2.peer import faults, installation
    from refil.envs.sc2.peer.server import Peer

    given = tuple(faults.parse(text) for text in args.fault)
    module = plugins.load("refil.envs", args.env)
    from refil.envs.starcraft.config import Config

    if module.Config is not Config:
        raise RefilError(f"--env {args.env} has no battles of the simulator")
    print("compiling the simulator", file=sys.stderr)
    with Peer(module.build(Config(jitter=args.jitter, acceleration=args.acceleration)), given, port=args.port) as peer:
        installation.write(args.folder, peer.port)
        print(f"serving {args.env} on port {peer.port}; use it with SC2PATH={args.folder}", flush=True)
        threading.Event().wait()
