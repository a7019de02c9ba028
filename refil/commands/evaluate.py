"""Play a run's trained models greedily and say how well they do."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from refil import runs, settings, statistics
from refil.settings import Count, Whole


@dataclass(frozen=True)
class Options:
    """What to play."""

    run: Annotated[Path, tyro.conf.Positional]  # the run's folder
    episodes: Count = 160  # greedy episodes, each seed
    seed: Whole = 0  # of the episodes: other seeds, other games
    json: bool = False  # print one JSON object


def main(arguments: list[str]) -> None:
    """Evaluate all seeds of a run."""
    options = settings.from_command_line(Options, arguments, "refil evaluate", __doc__)
    result = evaluate(options)
    if options.json:
        print(json.dumps(result))
        return
    low, high = result["win_rate_ci95"]
    print(f"{options.run}: {result['seeds']} seed(s), {result['episodes']} greedy episodes each")
    print(f"  episodes won  {result['win_rate']:.3f}  (95 % interval {low:.3f} to {high:.3f})")
    print(f"  return        {result['return_mean']:.3f}")
    print(f"  length        {result['length_mean']:.1f} steps")


def evaluate(options: Options) -> dict[str, object]:
    """Means over seeds; the interval is over seeds, or over episodes where there is a single seed."""
    import jax
    import numpy as np

    from refil.evaluate import greedy

    run = runs.existing(options.run)
    loop = run.experiment.build()
    models = run.load_models(jax.eval_shape(loop.method.init, jax.random.key(0)))
    keys = jax.random.split(jax.random.key(options.seed), len(run.seeds))
    score = jax.device_get(jax.jit(lambda models, keys: greedy(loop.env, models, options.episodes, keys))(models, keys))
    win_rate, low, high = (float(number) for number in statistics.mean_interval(np.asarray(score.win_rate)))
    if len(run.seeds) == 1:
        low, high = statistics.share_interval(win_rate, options.episodes)
    return {
        "episodes": options.episodes,
        "win_rate": win_rate,
        "win_rate_ci95": [low, high],
        "return_mean": float(score.return_mean.mean()),
        "length_mean": float(score.length_mean.mean()),
        "seeds": len(run.seeds),
    }
