"""Evaluate a trained team or the saved models of a run with greedy actions, apart from the evaluations during training."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from refil import settings, stats
from refil.errors import RefilError
from refil.settings import NonNegativeInt, PositiveInt
from refil.storage import run_dir
from refil.storage.progress import ProgressBar
from refil.storage.run_dir import RunDir
from refil.training.setup import Setup

if TYPE_CHECKING:
    from refil.training.evaluation import EvalResult

MEANS = ("return_mean", "length_mean")


@dataclass(frozen=True)
class EvaluateArgs:
    """The team or the run to evaluate, and how."""

    run: Annotated[str, tyro.conf.Positional]  # Team that ships with refil (see 'refil teams'), or folder of a run
    episodes: PositiveInt = 160  # Greedy episodes per seed; with --by-task, per seed and task
    by_task: bool = False  # Evaluate each task separately and write by_task.json, for 'refil plot --figure tasks_ranked'
    best: bool = False  # Choose the best seed by a first evaluation, and evaluate it again on other episodes
    seed: NonNegativeInt = 0  # Seed of the episodes
    trust: bool = False  # Run the code that the run contains, which somebody else may have written: read it first
    json: bool = False  # Print the result as one JSON object


def main(arguments: list[str]) -> None:
    """Evaluate all seeds of a run, or the best one."""
    args = settings.from_command_line(EvaluateArgs, arguments, "refil evaluate", __doc__)
    if args.by_task and args.best:
        raise RefilError("--by-task evaluates all seeds and --best one of them; give one of the two")
    from refil import teams

    if (team := teams.find(args.run)) is not None:
        _evaluate_team(team, args)
        return
    run = run_dir.open_run(Path(args.run), args.trust)
    run.config.configure()
    setup = run.config.build()
    if args.by_task:
        _evaluate_by_task(run, setup, args)
        return
    result, text = (_evaluate_best if args.best else _evaluate_all)(run, setup, args)
    print(json.dumps(result) if args.json else "\n".join(text))


def _evaluate_team(name: str, args: EvaluateArgs) -> None:
    """Evaluate a team that ships with refil, and print its card's win rates for comparison."""
    from refil import api, teams

    if args.best:
        raise RefilError(f"--best chooses among the seeds of a run; {name} is a single team")
    teams.config(name).configure()
    card, team = teams.card(name).evaluation, teams.load(name)
    with ProgressBar() as progress:
        progress.phase(f"compiling and playing {args.episodes} episodes{' of every task' if args.by_task else ''}")
        played = api.evaluate(team, episodes=args.episodes, by_task=args.by_task, seed=args.seed)
    if args.json:
        print(json.dumps(dataclasses.asdict(played)))
        return
    on_card = card.task_rates() | {"all tasks": (card.win_rate, card.ci95)}
    print(f"{name}: fresh evaluation, {args.episodes:,} greedy episodes{' of every task' if args.by_task else ''}")
    print(f"  {'task':<24} win rate   interval         on its card   return   length")
    ordered = sorted((played.by_task or {}).items(), key=lambda item: -item[1].win_rate)
    for task, row in [*ordered, ("all tasks", played)]:
        rate = f"{row.win_rate:8.3f}   {row.ci95[0]:.3f} to {row.ci95[1]:.3f} {on_card[task][0]:13.3f}"
        print(f"  {task:<24} {rate} {row.return_mean:8.3f} {row.length_mean:8.1f}")


def _evaluate_all(run: RunDir, setup: Setup, args: EvaluateArgs) -> tuple[dict[str, Any], list[str]]:
    from refil.training import evaluation

    played = _play(run, setup, evaluation.evaluate, args)
    by_seed = {str(seed): rate for seed, rate in zip(run.seeds, played.win_rate.tolist(), strict=True)}
    result = _summary(played, args) | {"win_rate_by_seed": by_seed, "seeds": len(run.seeds)}
    seeds = f"{len(run.seeds)} seed{'s' if len(run.seeds) > 1 else ''}"
    text = [f"{args.run}: fresh evaluation of the saved models of {seeds}, {args.episodes:,} greedy episodes each"]
    text += [f"  win rate of seed {seed:<4} {rate:.3f}" for seed, rate in by_seed.items() if len(by_seed) > 1]
    return result, text + _text(result)


def _evaluate_best(run: RunDir, setup: Setup, args: EvaluateArgs) -> tuple[dict[str, Any], list[str]]:
    from refil.training import evaluation

    first = _play(run, setup, evaluation.evaluate, args).win_rate
    row = int(first.argmax())
    best, played = run.seeds[row], _play(run, setup, evaluation.evaluate, args, row)
    by_seed = {str(seed): rate for seed, rate in zip(run.seeds, first.tolist(), strict=True)}
    result = _summary(played, args) | {"best_seed": best, "win_rate_when_chosen": by_seed}
    episodes = f"{args.episodes:,} greedy episodes"
    text = [f"{args.run}: the best of {len(by_seed)} saved models, by a first evaluation of {episodes} each"]
    text += [f"  win rate of seed {seed:<4} {rate:.3f}" for seed, rate in by_seed.items()]
    text.append(f"Seed {best} evaluated again on {episodes} with fresh random seeds, which the choice does not bias")
    return result, text + _text(result)


def _summary(played: "EvalResult", args: EvaluateArgs) -> dict[str, Any]:
    """Return means over seeds, and the spread of the win rate: over episodes for one seed, otherwise over seeds."""
    import numpy as np

    rate = float(played.win_rate.mean())
    spread = stats.spread(np.asarray(played.win_rate), (0.0, 1.0)) or stats.wilson_spread(rate, args.episodes)
    interval = {"low": float(spread.low), "high": float(spread.high), "name": spread.name}
    means = {name: float(getattr(played, name).mean()) for name in MEANS}
    return {"episodes": args.episodes, "win_rate": rate, "win_rate_spread": interval} | means


def _text(result: dict[str, Any]) -> list[str]:
    spread = result["win_rate_spread"]
    return [
        f"  win rate  {result['win_rate']:.3f}  ({spread['low']:.3f} to {spread['high']:.3f}, {spread['name']})",
        f"  return    {result['return_mean']:.3f}",
        f"  length    {result['length_mean']:.1f} steps",
    ]


def _evaluate_by_task(run: RunDir, setup: Setup, args: EvaluateArgs) -> None:
    import numpy as np

    from refil.training import evaluation

    times = _model_times(run)
    played = _play(run, setup, evaluation.evaluate_by_task, args)
    if _model_times(run) != times:
        raise RefilError(f"{args.run} is still training, and its models changed during the evaluation; try again when it ends")
    names = setup.env.task_names
    won = np.rint(args.episodes * np.asarray(played.win_rate, float)).astype(int)
    means = {name: dict(zip(names, getattr(played, name).tolist(), strict=True)) for name in MEANS}
    run.write_by_task(args.episodes, dict(zip(names, won.tolist(), strict=True)), **means)
    rates = run.by_task()
    if args.json:
        print(json.dumps({"episodes": args.episodes, "win_rate": rates} | means))
        return
    print(
        f"{args.run}: fresh evaluation, mean of {len(run.seeds)} seed(s), {args.episodes:,} greedy episodes per seed and task"
    )
    print(f"  {'task':<24} win rate   return   length")
    for name in sorted(names, key=lambda name: -np.mean(rates[name])):
        mean_return, length = (np.mean(means[mean][name]) for mean in MEANS)
        print(f"  {name:<24} {np.mean(rates[name]):8.3f} {mean_return:8.3f} {length:8.1f}")


def _play(run: RunDir, setup: Setup, play: Callable[..., Any], args: EvaluateArgs, chosen: int | None = None) -> "EvalResult":
    """Play with the models of all seeds, or with a chosen one on episodes that no model has played before."""
    import jax

    from refil.training import devices, memory

    memory.check_episodes(setup.env, args.episodes * len(run.seeds), "--episodes")
    models = run.load_models(jax.eval_shape(setup.method.init, jax.random.key(0)))
    key, count = jax.random.key(args.seed), len(run.seeds)
    keys = jax.random.split(key, count)
    if chosen is not None:
        models = jax.tree.map(lambda leaf: leaf[chosen : chosen + 1], models)
        keys = jax.random.split(key, count + 1)[count:]
    where = f"on each of {len(setup.env.task_names)} tasks" if args.by_task else f"on {run.config.env.name}"
    with ProgressBar() as progress:
        progress.phase(f"compiling and playing {args.episodes} episodes per seed {where}")
        return jax.device_get(devices.jit(lambda models, keys: play(setup.env, models, args.episodes, keys))(models, keys))


def _model_times(run: RunDir) -> list[int]:
    return [path.stat().st_mtime_ns for path in run.model_paths()]
