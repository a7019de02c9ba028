"""Show episodes of a trained team as a page that plays in a browser, as a film or as a picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from refil import settings
from refil.errors import RefilError
from refil.settings import NonNegativeInt, PositiveInt

STEPS_PER_SECOND = 4.0


@dataclass(frozen=True)
class Options:
    """What to show, and where to write it."""

    run: Annotated[Path, tyro.conf.Positional]  # a run's folder
    html: Path | None = None  # write a page that plays in a browser
    gif: Path | None = None  # write the first episode as a film
    png: Path | None = None  # write the first episode's middle as a picture
    episodes: PositiveInt = 5  # how many to play, greedily
    task: str | None = None  # the task to play, by its name; by default tasks at random
    seed: NonNegativeInt = 0  # of the tasks and of what happens in them
    model: NonNegativeInt | None = None  # the seed whose model plays; by default the run's first


def main(arguments: list[str]) -> None:
    """Play and write."""
    options = settings.from_command_line(Options, arguments, "refil watch", __doc__)
    if not (options.html or options.gif or options.png):
        raise RefilError("say what to write: --html FILE, --gif FILE or --png FILE")
    from refil.storage import run_dir
    from refil.viewer import export

    run = run_dir.existing(options.run)
    seeds = run.seeds
    if not seeds:
        raise RefilError(f"{options.run} has no model yet")
    model = seeds[0] if options.model is None else options.model
    if model not in seeds:
        raise RefilError(f"{options.run} has no model of seed {model}; it has {', '.join(map(str, seeds))}")
    env = run.experiment.build_env()
    if not hasattr(env, "scene"):
        raise RefilError(f"{run.experiment.env} cannot be drawn: it has no scene(state)")
    if options.task not in (None, *env.task_names):
        raise RefilError(f"{run.experiment.env} has no task {options.task}; it has {', '.join(env.task_names)}")
    clips = [export.Clip(title, scenes, STEPS_PER_SECOND) for title, scenes in episodes(run, env, seeds.index(model), options)]
    export.write(clips, options.html, options.gif, options.png)


def episodes(run: Any, env: Any, model: int, options: Options) -> list[tuple[str, list[Any]]]:
    """Each episode's title and scenes."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from refil import rollout
    from refil.training import devices

    loop = run.experiment.build()
    models = run.load_models(jax.eval_shape(loop.method.init, jax.random.key(0)))
    models = jax.tree.map(lambda leaf: leaf[model : model + 1], models)
    keys = jax.random.split(jax.random.key(options.seed), 1)

    def play(models: Any, keys: jax.Array) -> Any:
        if options.task is None:
            return rollout.random_tasks(env, models, options.episodes, jnp.zeros(1), keys)
        tasks = jnp.full((1, options.episodes), env.task_names.index(options.task))
        return rollout.collect(env, models, tasks, jnp.zeros(1), keys)

    trajectories = jax.tree.map(lambda leaf: np.asarray(leaf[0]), devices.jit(play)(models, keys))
    told = []
    for number in range(options.episodes):
        length = int(trajectories.valid[number].sum())
        states = [jax.tree.map(lambda leaf, n=number, t=t: leaf[n, t], trajectories.states) for t in range(length + 1)]
        name = env.task_names[int(trajectories.task[number])]
        end = "won" if trajectories.won[number] else "not won"
        told.append((f"{number + 1}: {name}, {end} after {length} steps", [env.scene(state) for state in states]))
    return told
