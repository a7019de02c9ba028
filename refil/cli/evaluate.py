"""Evaluate the trained models of a run with greedy actions."""

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
from refil.storage.run_dir import RunDir
from refil.training.setup import Setup


@dataclass(frozen=True)
class EvaluateArgs:
    """The run to evaluate, and how."""

    run: Annotated[Path, tyro.conf.Positional]  # Folder of the run
    episodes: PositiveInt = 160  # Greedy episodes per seed; with --by-task, per seed and task
    by_task: bool = False  # Evaluate each task separately and write by_task.json, for 'refil plot --figure tasks_ranked'
    seed: NonNegativeInt = 0  # Seed of the episodes
    json: bool = False  # Print the result as one JSON object


def main(arguments: list[str]) -> None:
    """Evaluate all seeds of a run."""
    args = settings.from_command_line(EvaluateArgs, arguments, "refil evaluate", __doc__)
    if args.by_task:
        _evaluate_by_task(args)
        return
    result = _evaluate(args)
    if args.json:
        print(json.dumps(result))
        return
    low, high = result["win_rate_ci95"]
    print(f"{args.run}: {result['seeds']} seed(s), {result['episodes']} greedy episodes each")
    print(f"  win rate  {result['win_rate']:.3f}  (95 % interval {low:.3f} to {high:.3f})")
    print(f"  return    {result['return_mean']:.3f}")
    print(f"  length    {result['length_mean']:.1f} steps")


def _evaluate(args: EvaluateArgs) -> dict[str, Any]:
    import numpy as np

    from refil.training import evaluation

    run = run_dir.open_run(args.run)
    run.config.configure()
    result = _play(run, run.config.build(), evaluation.evaluate, args)
    win_rate, low, high = (float(number) for number in stats.mean_interval(np.asarray(result.win_rate)))
    if len(run.seeds) == 1:  # the interval is over seeds, or over episodes if there is a single seed
        low, high = stats.wilson_interval(win_rate, args.episodes)
    return {
        "episodes": args.episodes,
        "win_rate": win_rate,
        "win_rate_ci95": [low, high],
        "return_mean": float(result.return_mean.mean()),
        "length_mean": float(result.length_mean.mean()),
        "seeds": len(run.seeds),
    }


def _evaluate_by_task(args: EvaluateArgs) -> None:
    import numpy as np

    from refil.training import evaluation

    run = run_dir.open_run(args.run)
    run.config.configure()
    setup, times = run.config.build(), _model_times(run)
    won = np.asarray(_play(run, setup, evaluation.evaluate_by_task, args)).tolist()
    if _model_times(run) != times:
        raise RefilError(f"{args.run} is still training, and its models changed during the evaluation; try again when it ends")
    run.write_by_task(args.episodes, dict(zip(setup.env.task_names, won, strict=True)))
    if args.json:
        print(json.dumps({"episodes": args.episodes, "win_rate": run.by_task()}))
        return
    print(f"{args.run}: {len(run.seeds)} seed(s), {args.episodes} greedy episodes each of {len(won)} task(s)")
    for name, rates in sorted(run.by_task().items(), key=lambda item: -np.mean(item[1])):
        print(f"  {name:<24} {np.mean(rates):.3f}")


def _play(run: RunDir, setup: Setup, play: Callable[..., Any], args: EvaluateArgs) -> Any:
    import jax

    from refil.training import devices

    models = run.load_models(jax.eval_shape(setup.method.init, jax.random.key(0)))
    keys = jax.random.split(jax.random.key(args.seed), len(run.seeds))
    return jax.device_get(devices.jit(lambda models, keys: play(setup.env, models, args.episodes, keys))(models, keys))


def _model_times(run: RunDir) -> list[int]:
    return [path.stat().st_mtime_ns for path in run.model_paths()]
