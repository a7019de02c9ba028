"""Play a run's trained models greedily and say how well they do."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from refil import settings, stats
from refil.errors import RefilError
from refil.settings import NonNegativeInt, PositiveInt
from refil.storage import run_dir
from refil.training.setup import Loop


@dataclass(frozen=True)
class Options:
    """What to play."""

    run: Annotated[Path, tyro.conf.Positional]  # the run's folder
    episodes: PositiveInt = 160  # greedy episodes, each seed; with --by-task, of each task
    by_task: bool = False  # every task apart; the run's folder keeps it as by_task.json, for refil plot --figure tasks_ranked
    seed: NonNegativeInt = 0  # of the episodes: other seeds, other games
    json: bool = False  # print one JSON object


def main(arguments: list[str]) -> None:
    """Evaluate all seeds of a run."""
    options = settings.from_command_line(Options, arguments, "refil evaluate", __doc__)
    if options.by_task:
        show_by_task(options)
        return
    result = evaluate(options)
    if options.json:
        print(json.dumps(result))
        return
    low, high = result["win_rate_ci95"]
    print(f"{options.run}: {result['seeds']} seed(s), {result['episodes']} greedy episodes each")
    print(f"  episodes won  {result['win_rate']:.3f}  (95 % interval {low:.3f} to {high:.3f})")
    print(f"  return        {result['return_mean']:.3f}")
    print(f"  length        {result['length_mean']:.1f} steps")


def show_by_task(options: Options) -> None:
    """Print each task's share of episodes won, best first, and keep all seeds' in the run's folder."""
    import numpy as np

    from refil.training.evaluation import by_task

    run = run_dir.existing(options.run)
    loop, written = run.experiment.build(), run.models_written()
    won = np.asarray(played(run, loop, by_task, options)).tolist()
    if run.models_written() != written:
        raise RefilError(f"{options.run} is training, and newer models have come meanwhile; try again once it has ended")
    run.keep_by_task(options.episodes, dict(zip(loop.env.task_names, won, strict=True)))
    if options.json:
        print(json.dumps({"episodes": options.episodes, "win_rate": run.by_task()}))
        return
    print(f"{options.run}: {len(run.seeds)} seed(s), {options.episodes} greedy episodes each of {len(won)} task(s)")
    for name, shares in sorted(run.by_task().items(), key=lambda item: -np.mean(item[1])):
        print(f"  {name:<24} {np.mean(shares):.3f}")


def played(run: run_dir.Run, loop: Loop, play: Callable[..., Any], options: Options) -> Any:
    """What comes of playing so many episodes with each seed's model."""
    import jax

    from refil.training import devices

    models = run.load_models(jax.eval_shape(loop.method.init, jax.random.key(0)))
    keys = jax.random.split(jax.random.key(options.seed), len(run.seeds))
    return jax.device_get(devices.jit(lambda models, keys: play(loop.env, models, options.episodes, keys))(models, keys))


def evaluate(options: Options) -> dict[str, object]:
    """Means over seeds; the interval is over seeds, or over episodes where there is a single seed."""
    import numpy as np

    from refil.training.evaluation import greedy

    run = run_dir.existing(options.run)
    score = played(run, run.experiment.build(), greedy, options)
    win_rate, low, high = (float(number) for number in stats.mean_interval(np.asarray(score.win_rate)))
    if len(run.seeds) == 1:
        low, high = stats.share_interval(win_rate, options.episodes)
    return {
        "episodes": options.episodes,
        "win_rate": win_rate,
        "win_rate_ci95": [low, high],
        "return_mean": float(score.return_mean.mean()),
        "length_mean": float(score.length_mean.mean()),
        "seeds": len(run.seeds),
    }
