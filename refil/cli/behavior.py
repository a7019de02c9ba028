"""PositiveInt what trained teams do in battles, beside scripts on the same tasks: shared targets, steps back, healers first."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from refil import plugins, settings
from refil.cli.battle import SCRIPTS
from refil.errors import RefilError
from refil.settings import NonNegativeInt, PositiveInt
from refil.storage import run_dir
from refil.training.config import ENVS


@dataclass(frozen=True)
class Options:
    """What to play."""

    run: Annotated[Path, tyro.conf.Positional]  # the run's folder
    episodes: PositiveInt = 100  # battles of each seed, and of each script
    scripts: tuple[str, ...] = ()  # which ones to stand beside the team; by default all
    seed: NonNegativeInt = 0  # of the battles
    json: bool = False  # print one JSON object: for each habit and player its chances and how many it took


def main(arguments: list[str]) -> None:
    """Print a table: how often each player took its chances."""
    options = settings.from_command_line(Options, arguments, "refil habits", __doc__)
    counted = count(options)
    if options.json:
        print(json.dumps(counted))
        return
    from rich.console import Console
    from rich.table import Table

    players = next(iter(counted.values()))
    table = Table("of all chances to", *players, title=f"{options.run}: {options.episodes} battles of each seed and script")
    for habit, by_player in counted.items():
        if any(chances for chances, _ in by_player.values()):
            table.add_row(habit, *(f"{taken / chances:.2f}" if chances else "" for chances, taken in by_player.values()))
    Console(width=30 + 14 * (len(players) + 1)).print(table)


def count(options: Options) -> dict[str, dict[str, list[int]]]:
    """For each habit and player its chances, and how many it took."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jaxtyping import Array, Key, PRNGKeyArray

    from refil import rollout
    from refil.envs.starcraft.analysis import behavior
    from refil.envs.starcraft.env import Battle
    from refil.training import devices
    from refil.types import Model

    commands = {name: plugins.load(SCRIPTS, name).command for name in options.scripts or plugins.names(SCRIPTS)}
    run = run_dir.existing(options.run)
    asked, loop = run.experiment, run.experiment.build()
    battle = plugins.load(ENVS, asked.env).build(asked.options.env)  # as it is, whatever the team is shown of it
    if not isinstance(battle, Battle):
        raise RefilError(f"habits are counted in battles, and {asked.env} has none")
    models = run.load_models(jax.eval_shape(loop.method.init, jax.random.key(0)))
    keys = jax.random.split(jax.random.key(options.seed), len(run.seeds))

    def team(models: Model, keys: Key[Array, " seeds"]) -> behavior.Counts:
        played = rollout.random_tasks(loop.env, models, options.episodes, jnp.zeros(keys.shape), keys)
        states, actions, valid = jax.tree.map(
            lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (played.states, played.actions, played.valid)
        )
        return behavior.of_team(battle, states, actions, valid)

    def script(command: behavior.Command, key: PRNGKeyArray) -> behavior.Counts:
        key_tasks, key_start, key_play = jax.random.split(key, 3)
        tasks = battle.tasks[jax.random.randint(key_tasks, (options.episodes,), 0, len(battle.task_names))]
        first = jax.vmap(battle.reset)(tasks, jax.random.split(key_start, options.episodes))
        return behavior.of_script(battle, command, first, jax.random.split(key_play, options.episodes))

    players = {asked.method: devices.jit(team)(models, keys)}
    players |= {name: devices.jit(partial(script, command))(keys[0]) for name, command in commands.items()}
    return {
        habit: {name: np.asarray(counts[habit]).tolist() for name, counts in players.items()}
        for habit in next(iter(players.values()))
    }
