"""Measure what trained teams do in battles, and compare them to scripts: focus fire, retreats, healers first."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from refil import plugins, settings
from refil.cli.battle import SCRIPTS
from refil.errors import RefilError
from refil.settings import NonNegativeInt, PositiveInt
from refil.storage.progress import Progress, ProgressBar

if TYPE_CHECKING:
    from refil.envs.starcraft.analysis.behavior import Counts
    from refil.envs.starcraft.analysis.scripted import ScriptedStarCraft
    from refil.envs.starcraft.env import StarCraft
    from refil.training.config import RunConfig

ENVS = "refil.envs"


@dataclass(frozen=True)
class BehaviorArgs:
    """The team or the run, and the scripts to compare it to."""

    # Team that ships with refil (see 'refil teams'), or folder of a run
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    episodes: PositiveInt = 100  # Number of battles per seed and per script
    scripts: tuple[str, ...] = ()  # Scripts to compare to (empty: all)
    seed: NonNegativeInt = 0  # Random seed of the battles
    trust: bool = False  # Run the code that the run contains, which somebody else may have written: read it first
    json: bool = False  # Print JSON: for each behavior and player, the opportunities and how many were taken


def main(arguments: list[str]) -> None:
    """Run the command."""
    args = settings.from_command_line(BehaviorArgs, arguments, "refil behavior", __doc__)
    with ProgressBar() as progress:
        counts = count_all(args, progress)
    if args.json:
        print(json.dumps(counts))
        return
    from rich.console import Console
    from rich.table import Table

    players = next(iter(counts.values()))
    title = f"{args.run}: fraction of opportunities taken in {args.episodes} battles per seed and script"
    table = Table("behavior", *players, title=title)
    for behavior, by_player in counts.items():
        if any(opportunities for opportunities, _ in by_player.values()):
            table.add_row(behavior, *(f"{taken / count:.2f}" if count else "" for count, taken in by_player.values()))
    Console(width=30 + 14 * (len(players) + 1)).print(table)


def count_all(args: BehaviorArgs, progress: Progress) -> dict[str, dict[str, list[int]]]:
    """Return, for each behavior and player, the number of opportunities and how many were taken."""
    import jax
    import numpy as np

    from refil import teams
    from refil.envs.starcraft.analysis.scripted import ScriptedStarCraft
    from refil.envs.starcraft.env import StarCraft

    scripts = {name: plugins.load(SCRIPTS, name).orders for name in args.scripts or plugins.names(SCRIPTS)}
    config = teams.config_of(args.run, args.trust)
    config.configure()
    env = plugins.load(ENVS, *config.names()["env"]).build(config.env.options)  # without the `mask_dead` wrapper
    if not isinstance(env, StarCraft):
        raise RefilError(f"behavior is measured in StarCraft battles; {config.env.name} has none")
    models, seeds = _models(args, config)
    keys = jax.random.split(jax.random.key(args.seed), seeds)
    progress.phase(f"playing {args.episodes} battles per seed: {config.method.name} (1 of {1 + len(scripts)})")
    players = {config.method.name: _count_team(config.build_env(), env, models, args.episodes, keys)}
    for number, (name, script) in enumerate(scripts.items(), start=2):
        progress.phase(f"playing {args.episodes} battles: {name} ({number} of {1 + len(scripts)})")
        players[name] = _count_script(ScriptedStarCraft(env, script), args.episodes, keys[:1])
    return {
        behavior: {name: np.asarray(counts[behavior]).tolist() for name, counts in players.items()}
        for behavior in next(iter(players.values()))
    }


def _models(args: BehaviorArgs, config: "RunConfig") -> tuple[Any, int]:
    """Return the models of all seeds, with a leading axis, and their number; a team that ships with refil has one."""
    import jax

    from refil import teams
    from refil.storage import run_dir

    if teams.find(args.run) is not None:
        return jax.tree.map(lambda leaf: leaf[None], teams.load_any(args.run).model), 1
    run = run_dir.open_run(Path(args.run), args.trust)
    return run.load_models(jax.eval_shape(config.build().method.init, jax.random.key(0))), len(run.seeds)


def _count_team(env: Any, starcraft: "StarCraft", models: Any, episodes: int, keys: Any) -> "Counts":
    import jax
    import jax.numpy as jnp

    from refil import rollout
    from refil.envs.starcraft.analysis import behavior
    from refil.nn.utilities import team_policy, team_state
    from refil.training import devices

    def count(models: Any, keys: Any) -> "Counts":
        policy, start = team_policy(models, jnp.zeros(keys.shape)), team_state(models, episodes, env.spec.agents)
        played = rollout.rollout_random_tasks(env, policy, start, episodes, keys)
        return behavior.count_team(starcraft, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), played))

    return devices.run(env, count, models, keys)


def _count_script(env: "ScriptedStarCraft", episodes: int, keys: Any) -> "Counts":
    import jax

    from refil import rollout
    from refil.envs.starcraft.analysis import behavior
    from refil.training import devices

    def count(keys: Any) -> "Counts":
        played = rollout.rollout_random_tasks(env, rollout.no_policy, (), episodes, keys)
        return behavior.count_script(env, jax.tree.map(lambda leaf: leaf[0], played))

    return devices.run(env, count, keys)
