"""Let scripted allies fight the simulator's enemies, and count or show what happens."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from refil import plugins, settings
from refil.errors import RefilError
from refil.settings import NonNegativeInt, PositiveInt

if TYPE_CHECKING:
    from refil.envs.starcraft.analysis.scripted import Command
    from refil.envs.starcraft.env import Battle
    from refil.envs.starcraft.sim.state import World

HELP = """Let scripted allies fight the simulator's enemies, and count or show what happens.

    refil battle --allies 3s5z --enemies 3s6z --script focus

Armies are numbers and letters: m Marine, M Marauder, v Medivac, s Stalker, z Zealot, c Colossus, h Hydralisk, zg Zergling,
b Baneling, sc Spine Crawler."""

ENVS, SCRIPTS = "refil.envs", "refil.envs.starcraft.scripts"
SHOWN = 5  # battles in a page or a film, at most


@dataclass(frozen=True)
class Options:
    """Who fights whom, how often, and what is shown of it."""

    allies: str | None = None  # the scripted army
    enemies: str | None = None  # the other one; by default the same
    tasks: str | None = None  # instead of armies: a task set or map, each battle one of its tasks at random
    placement: Path | None = None  # instead of armies: a JSON file with units in exact places
    script: str = "nearest"  # attack_move, focus, kite, nearest, random, stop, or a .py file of one's own
    episodes: PositiveInt = 100  # battles to fight
    seed: NonNegativeInt = 0  # of the spawns and of all that is left to chance
    profile: Literal["smac", "smaclite"] = "smac"  # whose unit numbers and rules
    jitter: bool = True  # reload times vary by a loop or two
    acceleration: bool = True  # Medivacs gather speed
    healers_alone_lose: bool = True  # a side with only Medivacs left has lost
    limit: PositiveInt | None = None  # steps after which a battle ends; by default 150, or the map's
    json: bool = False  # print JSON
    loops: bool = False  # print the state of the first battle after every game loop, a JSON object a line
    html: Path | None = None  # write the first battles as a page that plays in a browser
    gif: Path | None = None  # write the first battle as a film
    png: Path | None = None  # write the first battle's middle as a picture


def main(arguments: list[str]) -> None:
    """Fight."""
    options = settings.from_command_line(Options, arguments, "refil battle", HELP)
    if sum(given is not None for given in (options.allies, options.tasks, options.placement)) != 1:
        raise RefilError("give one of --allies ARMY (with --enemies ARMY), --tasks NAME or --placement FILE")
    if options.enemies is not None and options.allies is None:
        raise RefilError("--enemies needs --allies")
    script = plugins.load(SCRIPTS, options.script)
    import jax

    battle, worlds, command, order = set_up(options, script.command)
    keys = jax.random.split(jax.random.key(options.seed), options.episodes)
    if options.loops:
        for loop, world in enumerate(looped(battle, command, first(worlds), keys[0]), start=1):
            print(json.dumps({"loop": loop, "units": [unit(world, slot) for slot in order]}))
        return
    show(options, battle, command, worlds, keys)
    from refil.envs.starcraft.analysis import scripted

    fights = jax.jit(lambda worlds, keys: scripted.fight(battle, command, worlds, keys))(worlds, keys)
    tell(scripted.summary(battle, fights), options)


def set_up(options: Options, command: "Command") -> "tuple[Battle, World, Command, list[int]]":
    """The battle, first instants of as many as are wanted, the script, and the slots in the order in which to show units."""
    import jax
    import jax.numpy as jnp

    from refil.envs import starcraft
    from refil.envs.starcraft import env, scenarios
    from refil.envs.starcraft.analysis import placement
    from refil.envs.starcraft.config import Config

    config = Config(
        profile=options.profile,
        jitter=options.jitter,
        acceleration=options.acceleration,
        healers_alone_lose=options.healers_alone_lose,
        limit=options.limit,
    )
    key_tasks, key_places = jax.random.split(jax.random.key(options.seed + 2**31))
    if options.placement is not None:
        placed = placement.read(options.placement, config)
        worlds = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], options.episodes, axis=0), placed.world)
        if placed.actions is not None:
            command = placed.command
        return placed.battle, worlds, command, placed.slot
    if options.tasks is not None:
        module = plugins.load(ENVS, options.tasks)
        if module.Config is not Config:
            raise RefilError(f"--tasks {options.tasks} has no battles; there are {', '.join(starcraft.names())}")
        made = module.build(config)
    else:
        armies = scenarios.read(options.allies), scenarios.read(options.enemies or options.allies)
        made = env.build(scenarios.Scenario(lambda: [armies], 150), config)
    rows = jax.random.randint(key_tasks, (options.episodes,), 0, len(made.task_names))
    keys = jax.random.split(key_places, options.episodes)
    worlds = jax.jit(jax.vmap(made.reset))(jnp.asarray(made.tasks)[rows], keys)
    return made, worlds, command, list(range(made.game.units))


def first(worlds: "World", number: int = 0) -> "World":
    """One of many battles."""
    import jax

    return jax.tree.map(lambda leaf: leaf[number], worlds)


def looped(battle: "Battle", command: "Command", world: "World", key: Any) -> "Iterator[World]":
    """The world after every game loop of a battle."""
    import jax
    import numpy as np

    from refil.envs.starcraft.analysis import scripted

    step = jax.jit(lambda world, key: scripted.step_by_loops(battle, command, world, key))
    over = False
    while not over:
        seen, over = step(world, key)
        world = battle.tick_clock(jax.tree.map(lambda leaf: leaf[-1], seen))
        yield from (jax.tree.map(lambda leaf, n=n: np.asarray(leaf)[n], seen) for n in range(seen.x.shape[0]))


def unit(world: "World", slot: int) -> dict[str, float]:
    """A unit's numbers, to six decimals."""
    names = ("x", "y", "health", "shield", "energy", "cooldown")
    return {name: round(float(getattr(world, name)[slot]), 6) for name in names}


def show(options: Options, battle: "Battle", command: "Command", worlds: "World", keys: Any) -> None:
    """Write the pictures that are wanted."""
    if not (options.html or options.gif or options.png):
        return
    import jax
    import jax.numpy as jnp

    from refil.viewer import export

    clips = []
    for number in range(min(SHOWN if options.html else 1, options.episodes)):
        begun = first(worlds, number)
        frames = [begun, *looped(battle, command, begun, keys[number])]
        title = f"{number + 1}: {battle.result(jax.tree.map(jnp.asarray, frames[-1]))} after {len(frames) // 8} steps"
        clips.append(export.Clip(title, [battle.scene(world) for world in frames], 16.0))
    export.write(clips, options.html, options.gif, options.png)


def tell(result: dict[str, int | float], options: Options) -> None:
    """Print what came of it."""
    if options.json:
        print(json.dumps(result))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("", "mean", "spread", title=f"{result['episodes']} battles, script {options.script}")
    for name in ("win", "loss", "draw", "timeout"):
        table.add_row(name, f"{100 * result[f'{name}_rate']:.1f} %", "")
    for name, words in (
        ("length", "steps"),
        ("allies_left", "allies left"),
        ("enemies_left", "enemies left"),
        ("return", "return"),
    ):
        table.add_row(words, f"{result[f'{name}_mean']:.2f}", f"{result[f'{name}_std']:.2f}")
    for name, words in (("ally_health_left", "allies' health left"), ("enemy_health_left", "enemies' health left")):
        table.add_row(words, f"{100 * result[f'{name}_mean']:.1f} %", f"{100 * result[f'{name}_std']:.1f} %")
    Console(file=sys.stdout).print(table)
