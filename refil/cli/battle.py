"""Let scripted allies fight the simulator's enemies; print statistics or show the battles."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from refil import plugins, settings
from refil.envs.starcraft import scenarios
from refil.errors import RefilError
from refil.settings import NonNegativeInt, PositiveInt
from refil.storage.progress import Progress, ProgressBar

if TYPE_CHECKING:
    from refil.envs.starcraft.analysis.scripted import Script, ScriptedStarCraft
    from refil.envs.starcraft.config import Config
    from refil.envs.starcraft.env import StarCraft
    from refil.envs.starcraft.sim.state import State
    from refil.types import Trajectory
    from refil.viewer.export import Clip, Outputs

HELP = f"""Let scripted allies fight the simulator's enemies; print statistics or show the battles.

    refil battle --allies 3s5z --enemies 3s6z --script focus

Armies are numbers and letters: {scenarios.LETTERS}.

A placement is a JSON file with units at exact positions and, optionally, the actions of the allies at every step:
{{"units": [{{"team": "ally", "type": "marine", "x": 12, "y": 16}}, ...], "actions": [["target 1"], ["north"], ...]}}.
docs/environments.md lists unit types and action words."""

ENVS, SCRIPTS = "refil.envs", "refil.envs.starcraft.scripts"
MAX_SHOWN = 5  # battles on a replay page
CHUNK = 500  # battles simulated together; their trajectories are kept in memory
TICKS_PER_SECOND = 16.0
UNIT_KEYS = ("x", "y", "health", "shield", "energy", "cooldown")


@dataclass(frozen=True)
class BattleArgs:
    """The armies, the script, and the output."""

    allies: str | None = None  # Scripted army, such as 3s5z
    enemies: str | None = None  # Enemy army (None: the same as --allies)
    tasks: str | None = None  # Task set or map to sample tasks from, instead of armies
    placement: Path | None = None  # JSON file with units at exact positions, instead of armies
    script: str = "nearest"  # Script of the allies: attack_move, focus, kite, nearest, random, stop, or the path of a .py file
    episodes: PositiveInt = 100  # Number of battles
    seed: NonNegativeInt = 0  # Random seed
    profile: Literal["smac", "smaclite"] = "smac"  # Unit stats and rules: SMAC's or SMAClite's
    jitter: bool = True  # Weapon cooldowns vary randomly by a tick or two
    acceleration: bool = True  # Medivacs take time to reach full speed
    healers_alone_lose: bool = True  # A team with only Medivacs left has lost
    limit: PositiveInt | None = None  # Steps after which a battle ends (None: 150, or the limit of the task set or map)
    json: bool = False  # Print JSON
    ticks: bool = False  # Print the units of the first battle after every game tick, as one JSON object per line
    html: Path | None = None  # Write a replay page of the first battles
    compare: str | None = None  # Another script, which plays the same battles next to the first one on the page
    gif: Path | None = None  # Write an animation of the first battle
    mp4: Path | None = None  # Write a video of the first battle; needs ffmpeg
    png: Path | None = None  # Write a picture of the middle of the first battle
    frames: Path | None = None  # Folder for a picture of every game tick of the first battle


def main(arguments: list[str]) -> None:
    """Run the command."""
    args = settings.from_command_line(BattleArgs, arguments, "refil battle", HELP)
    if sum(given is not None for given in (args.allies, args.tasks, args.placement)) != 1:
        raise RefilError("give one of --allies ARMY (with --enemies ARMY), --tasks NAME or --placement FILE")
    if args.enemies is not None and args.allies is None:
        raise RefilError("--enemies needs --allies")
    from refil.viewer import export

    outputs = export.Outputs(args.html, args.gif, args.png, args.mp4, args.frames)
    outputs.check()
    if args.compare is not None and (args.html is None or args.placement is not None):
        raise RefilError("--compare shows two scripts on a page; give --html FILE, and armies or --tasks, no --placement")
    script = plugins.load(SCRIPTS, args.script)
    other = None if args.compare is None else plugins.load(SCRIPTS, args.compare).orders
    import jax

    from refil.envs.starcraft.analysis import scripted

    with ProgressBar() as progress:
        progress.phase("compiling and setting up the battles")
        env, first_states, slots = set_up(args, script.orders)
        keys, result = jax.random.split(jax.random.key(args.seed), args.episodes), None
        if args.ticks:
            progress.phase("compiling and playing the first battle")
            lines = tick_lines(env, play(env, first_states, keys, 1), slots)
        else:
            lines = []
            if outputs != export.Outputs():
                progress.phase("compiling and playing the battles to show")
                lines = write_replays(args, outputs, env, (first_states, keys), other)
            result = scripted.summary(env.env, battle_results(env, first_states, keys, progress))
    print("\n".join(lines), end="\n" if lines else "")
    if result is not None:
        print_summary(result, args)


def set_up(args: BattleArgs, script: "Script") -> "tuple[ScriptedStarCraft, State, list[int]]":
    """Return the environment, the first state of each battle, and the slots in the order in which to print units."""
    import jax
    import jax.numpy as jnp

    from refil.envs.starcraft.analysis import placement
    from refil.envs.starcraft.analysis.scripted import ScriptedStarCraft
    from refil.envs.starcraft.config import Config
    from refil.training import memory

    config = Config(
        profile=args.profile,
        jitter=args.jitter,
        acceleration=args.acceleration,
        healers_alone_lose=args.healers_alone_lose,
        limit=args.limit,
    )
    if args.placement is not None:
        placed: Any = placement.read(args.placement, config)
        memory.check_episodes(placed.env, args.episodes, "--episodes")
        states = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], args.episodes, axis=0), placed.state)
        return ScriptedStarCraft(placed.env, script if placed.actions is None else placed.orders), states, placed.slots
    env: Any = build_env(args, config)
    memory.check_episodes(env, args.episodes, "--episodes")
    task_key, reset_key = jax.random.split(jax.random.key(args.seed + 2**31))
    numbers = jax.random.randint(task_key, (args.episodes,), 0, len(env.task_names))
    tasks = jax.tree.map(lambda rows: jnp.asarray(rows)[numbers], env.tasks)
    states = jax.jit(jax.vmap(env.reset))(tasks, jax.random.split(reset_key, args.episodes))
    return ScriptedStarCraft(env, script), states, list(range(env.game.num_units))


def build_env(args: BattleArgs, config: "Config") -> "StarCraft":
    """Return the environment of the task set or of the two armies."""
    from refil.envs import starcraft
    from refil.envs.starcraft import env

    if args.tasks is None:
        armies = scenarios.parse_army(args.allies or ""), scenarios.parse_army(args.enemies or args.allies or "")
        return env.build(scenarios.Scenario(lambda: [armies], 150), config)
    module = plugins.load(ENVS, args.tasks)
    if module.Config is not type(config):
        raise RefilError(f"--tasks {args.tasks} has no battles; available: {', '.join(starcraft.names())}")
    return module.build(config)


def play(env: "ScriptedStarCraft", first_states: "State", keys: Any, count: int) -> "Trajectory":
    """Play the first battles."""
    import jax

    from refil.envs.starcraft.analysis import scripted

    first_states, keys = jax.tree.map(lambda leaf: leaf[:count], (first_states, keys))
    return jax.jit(lambda states, keys: scripted.play(env, states, keys))(first_states, keys)


def battle_results(env: "ScriptedStarCraft", first_states: "State", keys: Any, progress: Progress) -> Any:
    """Play all battles and return their results."""
    import jax
    import numpy as np

    from refil.envs.starcraft.analysis import scripted

    run = jax.jit(lambda states, keys: scripted.battle_results(env.env, scripted.play(env, states, keys)))
    chunks = [jax.tree.map(lambda leaf, i=i: leaf[i : i + CHUNK], (first_states, keys)) for i in range(0, len(keys), CHUNK)]
    results, count = [], len(keys)
    for number, chunk in enumerate(chunks):
        text = f"battles {CHUNK * number + 1:,} to {min(CHUNK * (number + 1), count):,} of {count:,}"
        progress.phase(f"compiling and playing {text}" if number in (0, count // CHUNK) else f"playing {text}")
        results.append(jax.device_get(run(*chunk)))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *results)


def tick_states(env: "ScriptedStarCraft", trajectories: "Trajectory", number: int) -> "list[State]":
    """Return the states after every tick of one battle."""
    import jax
    import numpy as np

    from refil.envs.starcraft.analysis import scripted

    trajectory = jax.tree.map(lambda leaf: leaf[number], trajectories)
    states = jax.tree.map(np.asarray, jax.jit(lambda played: scripted.all_ticks(env, played))(trajectory))
    steps, ticks = int(trajectory.valid.sum()), states.x.shape[1]
    return [jax.tree.map(lambda leaf, s=s, t=t: leaf[s, t], states) for s in range(steps) for t in range(ticks)]


def tick_lines(env: "ScriptedStarCraft", trajectories: "Trajectory", slots: list[int]) -> list[str]:
    """Return a line with the units of the first battle after every tick, with six decimals."""
    lines = []
    for number, state in enumerate(tick_states(env, trajectories, 0), start=1):
        units = [{name: round(float(getattr(state, name)[slot]), 6) for name in UNIT_KEYS} for slot in slots]
        lines.append(json.dumps({"tick": number, "units": units}))
    return lines


def write_replays(
    args: BattleArgs, outputs: "Outputs", env: "ScriptedStarCraft", starts: "tuple[State, Any]", other: "Script | None"
) -> list[str]:
    """Play the first battles, also with the script to compare with, and write them to files; return a line for each file."""
    from refil.envs.starcraft.analysis import scripted
    from refil.viewer import export

    shown = min(MAX_SHOWN if args.html else 1, args.episodes)
    clips, compared = battle_clips(env, play(env, *starts, shown)), None
    if other is not None:
        rival = scripted.ScriptedStarCraft(env.env, other)
        compared = battle_clips(rival, play(rival, *starts, shown))
    labels = tuple(Path(name).stem for name in (args.script, args.compare) if name is not None)
    return export.write(clips, outputs, compared, labels)


def battle_clips(env: "ScriptedStarCraft", trajectories: "Trajectory") -> "list[Clip]":
    """Return a clip of each battle with a scene for every tick; rewards are those of whole steps."""
    import jax

    from refil.envs.starcraft.analysis import scripted
    from refil.envs.starcraft.reward import RESULT_NAMES
    from refil.envs.starcraft.sim.rules import TICKS_PER_STEP
    from refil.viewer import export

    results, clips = scripted.battle_results(env.env, trajectories), []
    for number, (result, length) in enumerate(zip(results.result.tolist(), results.length.tolist(), strict=True)):
        first = jax.tree.map(lambda leaf, number=number: leaf[number], results.first)
        scenes = [env.env.scene(state) for state in (first, *tick_states(env, trajectories, number))]
        rewards = [0.0] * (length * TICKS_PER_STEP)
        rewards[TICKS_PER_STEP - 1 :: TICKS_PER_STEP] = trajectories.rewards[number, :length].tolist()
        title = f"{number + 1}: {RESULT_NAMES[result]} after {length} steps"
        clips.append(export.Clip(title, scenes, TICKS_PER_SECOND, tuple(rewards)))
    return clips


def print_summary(result: dict[str, int | float], args: BattleArgs) -> None:
    """Print the statistics as JSON or as a table."""
    if args.json:
        print(json.dumps(result))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("", "mean", "std", title=f"{result['episodes']} battles, script {args.script}")
    for name in ("win", "loss", "draw", "timeout"):
        table.add_row(f"{name} rate", f"{100 * result[f'{name}_rate']:.1f} %", "")
    for name in ("length", "allies_left", "enemies_left", "return"):
        table.add_row(name.replace("_", " "), f"{result[f'{name}_mean']:.2f}", f"{result[f'{name}_std']:.2f}")
    for name in ("ally_health_left", "enemy_health_left"):
        table.add_row(name.replace("_", " "), f"{100 * result[f'{name}_mean']:.1f} %", f"{100 * result[f'{name}_std']:.1f} %")
    Console(file=sys.stdout).print(table)
