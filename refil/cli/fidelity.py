"""Compare the simulator with the real StarCraft II: the same scripted battles in both."""

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from refil import plugins, settings
from refil.errors import RefilError
from refil.settings import NonNegativeInt, PositiveInt, Range

if TYPE_CHECKING:
    from refil.envs.sc2.fidelity import Constant, Point

HELP = """Compare the simulator with the real StarCraft II: the same scripted battles in both.

    refil fidelity 3-8sz --scripts nearest focus --battles 200

    refil fidelity 1s_vs_1z --scripts nearest

First, what the game says about each unit type (health, shield, radius, plane) is compared with the simulator's table.

Both play the same armies from the same spawn points with the same scripts. The table has the mean of each number in the game
and in the simulator, and the mean difference of the same battles with its 95 % interval. Differences whose interval excludes
zero are marked, and named below with the constants of the simulator that decide them; among equal numbers about one in twenty
is marked, too. Damage is that to the victims of a type, net of what they recover in the same step. Small battles (1m, 1s_vs_1z)
tell most about one constant.

docs/starcraft2.md says how to install the game."""

SCRIPTS, PREFIX = "refil.envs.starcraft.scripts", "sc2:"


@dataclass(frozen=True)
class FidelityArgs:
    """The battles, and how to play them."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[ENV]")] = "3-8sz"  # Task set, map or armies
    scripts: tuple[str, ...] = ("nearest", "focus", "stop")  # Scripts of the allies: focus, kite, nearest, random, stop, ...
    battles: Annotated[int, Range(5)] = 100  # Battles per script
    games: PositiveInt = 8  # Games that run at once
    build: PositiveInt | None = None  # Build of the game (None: the newest one installed)
    seed: NonNegativeInt = 0  # Random seed of the battles
    json: bool = False  # Print JSON


def main(arguments: list[str]) -> None:
    """Play the battles and print the comparison."""
    args = settings.from_command_line(FidelityArgs, arguments, "refil fidelity", HELP)
    name = PREFIX + args.env.removeprefix(PREFIX)
    module, scripts = plugins.load("refil.envs", name), {name: plugins.load(SCRIPTS, name).orders for name in args.scripts}
    if not scripts:
        raise RefilError(f"--scripts names no script; available: {', '.join(plugins.names(SCRIPTS))}")
    import jax

    from refil import hosted
    from refil.envs.sc2 import fidelity
    from refil.storage.progress import ProgressBar

    env, found = module.build(module.Config(games=args.games, build=args.build)), {}
    env.check_ready()
    try:
        with ProgressBar() as progress, hosted.reporting_to(progress.update):
            progress.phase("comparing unit types")
            constants = fidelity.compare_constants(env)
            for number, (script, orders) in enumerate(scripts.items()):
                progress.phase(f"playing {args.battles} battles of {args.env} with {script} in the game and in the simulator")
                key = jax.random.fold_in(jax.random.key(args.seed), number)
                found[script] = fidelity.compare(env, orders, args.battles, key)
    finally:
        env.games.close()
    if args.json:
        print(to_json(args, constants, found))
        return
    print_constants(constants)
    print_tables(args, found)


def to_json(args: FidelityArgs, constants: "list[Constant]", found: "dict[str, list[Point]]") -> str:
    """Return the comparison as one JSON object."""
    scripts = {
        script: [asdict(point) | {"differs": point.differs, "constants": point.constants} for point in points]
        for script, points in found.items()
    }
    table = [asdict(constant) | {"differs": constant.differs} for constant in constants]
    about = {"env": args.env, "battles": args.battles, "seed": args.seed}
    return json.dumps(about | {"constants": table, "scripts": scripts})


def print_constants(constants: "list[Constant]") -> None:
    """Print which constants of unit types are others in the game."""
    wrong = [constant for constant in constants if constant.differs]
    for constant in wrong:
        print(f"differs: {constant.name} is {constant.game:g} in the game and {constant.simulator:g} in the simulator")
    if not wrong:
        print(f"{len(constants)} constants of unit types (health, shield, radius, plane) are the same in the game.")


def print_tables(args: FidelityArgs, found: "dict[str, list[Point]]") -> None:
    """Print a table per script, and which constants to look at."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=sys.stdout)
    for script, points in found.items():
        columns = ("", "battles", "game", "simulator", "difference", "95 % interval", "")
        table = Table(*columns, title=f"{args.env}, script {script}: {args.battles} battles, game and simulator")
        for column in table.columns[1:6]:
            column.justify = "right"
        for point in points:
            low, high = point.difference_interval
            numbers = (_format(point, value) for value in (point.game, point.simulator))
            signed = _format(point, point.difference, "+")
            interval = f"{_format(point, low, '+')} to {_format(point, high, '+')}"
            table.add_row(point.name, str(point.battles), *numbers, signed, interval, "differs" if point.differs else "")
        console.print(table)
    different = {point.name: point.constants for points in found.values() for point in points if point.differs}
    for name, constants in different.items():
        console.print(f"{name}: {constants}", highlight=False, soft_wrap=True)
    if not different:
        console.print("No difference is statistically significant.")


def _format(point: "Point", value: float, sign: str = "") -> str:
    is_fraction = point.name == "win rate" or point.name.endswith("left")
    return f"{100 * value:{sign}.1f} %" if is_fraction else f"{value:{sign}.1f}"
