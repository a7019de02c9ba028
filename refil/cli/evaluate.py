"""Evaluate a trained team or the saved models of a run with greedy actions, apart from the evaluations during training."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from refil import hosted, settings, stats
from refil.cli import _rates
from refil.errors import RefilError
from refil.settings import NonNegativeInt, PositiveInt
from refil.storage import run_dir, serialization
from refil.storage.progress import ProgressBar
from refil.storage.run_dir import RunDir
from refil.training.setup import Setup

if TYPE_CHECKING:
    from refil.team import Team
    from refil.teams.card import Evaluation
    from refil.training.evaluation import EvalResult

TRAINED_ON = "tasks_trained_on"  # name in the JSON of --tasks held-out


@dataclass(frozen=True)
class EvaluateArgs:
    """The team or the run to evaluate, and how."""

    # Team that ships with refil (see 'refil teams'), or folder of a run
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    episodes: PositiveInt = 160  # Greedy episodes per seed; with --by-task, per seed and task
    by_task: bool = False  # Evaluate each task separately and write by_task.json, for 'refil plot --figure tasks_ranked'
    tasks: Literal["all", "train", "held-out"] | None = None  # Tasks of the set to play (None: those of training)
    # Another environment with the same features and actions, such as sc2:3-8sz, or 9-12sz after training with --env.tags 12
    env: str | None = None
    # Seed from which unit-stat multipliers are drawn, in sets whose stats vary (None: that of training)
    draw_seed: NonNegativeInt | None = None
    best: bool = False  # Choose the best seed by a first evaluation, and evaluate it again on other episodes
    seed: NonNegativeInt = 0  # Seed of the episodes
    trust: bool = False  # Run the code that the run contains, which somebody else may have written: read it first
    json: bool = False  # Print the result as one JSON object

    @property
    def elsewhere(self) -> dict[str, Any]:
        """How the episodes differ from those of training: arguments of `transfer.build_env`."""
        changes = {"name": self.env, "tasks": self.tasks, "draw_seed": self.draw_seed}
        return {name: value for name, value in changes.items() if value is not None}


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
    trained_on = setup.env.task_names
    if args.elsewhere:
        from refil.training import transfer

        setup = setup._replace(env=transfer.build_env(run.config, **args.elsewhere))
    about = _held_out(args, setup.env.task_names, trained_on)
    if args.by_task:
        _evaluate_by_task(run, setup, args, about)
        return
    result, text = (_evaluate_best if args.best else _evaluate_all)(run, setup, args)
    print(json.dumps(result | about) if args.json else "\n".join([text[0], *_note(about), *text[1:]]))


def _held_out(args: EvaluateArgs, played: tuple[str, ...], trained_on: tuple[str, ...]) -> dict[str, int]:
    """Return how many of the tasks to play were part of training, if tasks that were not are asked for."""
    return {TRAINED_ON: len({*played} & {*trained_on})} if args.tasks == "held-out" else {}


def _note(about: dict[str, int]) -> list[str]:
    if not about.get(TRAINED_ON):
        return []
    return [f"  NOTE: {about[TRAINED_ON]} of these tasks were not held out when this team was trained"]


def _where(args: EvaluateArgs) -> str:
    where = f"{args.run}" if args.env is None else f"{args.run} in {args.env}"
    where += "" if args.tasks is None else f", tasks {args.tasks}"
    return where if args.draw_seed is None else f"{where}, draw seed {args.draw_seed}"


def _evaluate_team(name: str, args: EvaluateArgs) -> None:
    """Evaluate a team that ships with refil, and print its card's win rates for comparison."""
    from refil import api, teams

    if args.best:
        raise RefilError(f"--best chooses among the seeds of a run; {name} is a single team")
    config = teams.config(name)
    config.configure()
    card, team = teams.card(name).evaluation, teams.load(name)
    trained_on = team.env.task_names
    if args.elsewhere:
        from refil.training import transfer

        team = replace(team, env=transfer.build_env(config, **args.elsewhere))
    about = _held_out(args, team.env.task_names, trained_on)
    with ProgressBar() as progress, hosted.reporting_to(progress.update):
        progress.phase(f"compiling and playing {args.episodes} episodes{' of every task' if args.by_task else ''}")
        played = api.evaluate(team, episodes=args.episodes, by_task=args.by_task, seed=args.seed)
    if args.json:
        print(json.dumps(asdict(played) | about))
        return
    on_card = card.task_rates() | ({"all tasks": (card.win_rate, card.ci95)} if _same_tasks(team, card) else {})
    print(f"{_where(args)}: fresh evaluation, {args.episodes:,} greedy episodes{' of every task' if args.by_task else ''}")
    for line in _note(about):
        print(line)
    print(f"  {'task':<24} win rate   interval         on its card   return   length   won in")
    if args.env:
        print(f"  (the rates on its card are those in {config.env.name})")
    ordered = sorted((played.by_task or {}).items(), key=lambda item: -item[1].win_rate)
    for task, row in [*ordered, ("all tasks", played)]:
        known = f"{on_card[task][0]:13.3f}" if task in on_card else f"{'-':>13}"
        rate = f"{row.win_rate:8.3f}   {row.ci95[0]:.3f} to {row.ci95[1]:.3f} {known}"
        print(f"  {task:<24} {rate} {row.return_mean:8.3f} {row.length_mean:8.1f} {_rates.steps(row.won_length_mean)}")


def _same_tasks(team: "Team", card: "Evaluation") -> bool:
    """Return whether a team plays the tasks of its card, in the same or in another environment."""
    return set(team.env.task_names) == set(card.won)


def _evaluate_all(run: RunDir, setup: Setup, args: EvaluateArgs) -> tuple[dict[str, Any], list[str]]:
    played = _play(run, setup, args)
    by_seed = {str(seed): rate for seed, rate in zip(run.seeds, played.win_rate.tolist(), strict=True)}
    result = _summary(played, args) | {"win_rate_by_seed": by_seed, "seeds": len(run.seeds)}
    text = [
        f"{_where(args)}: fresh evaluation of the saved models of {_count_seeds(run)}, {args.episodes:,} greedy episodes each"
    ]
    text += [f"  win rate of seed {seed:<4} {rate:.3f}" for seed, rate in by_seed.items() if len(by_seed) > 1]
    return result, text + _text(result)


def _evaluate_best(run: RunDir, setup: Setup, args: EvaluateArgs) -> tuple[dict[str, Any], list[str]]:
    first = _play(run, setup, args).win_rate
    row = int(first.argmax())
    best, played = run.seeds[row], _play(run, setup, args, row)
    by_seed = {str(seed): rate for seed, rate in zip(run.seeds, first.tolist(), strict=True)}
    result = _summary(played, args) | {"best_seed": best, "win_rate_when_chosen": by_seed}
    episodes = f"{args.episodes:,} greedy episodes"
    text = [f"{_where(args)}: the best of {len(by_seed)} saved models, by a first evaluation of {episodes} each"]
    text += [f"  win rate of seed {seed:<4} {rate:.3f}" for seed, rate in by_seed.items()]
    text.append(f"Seed {best} evaluated again on {episodes} with fresh random seeds, which the choice does not bias")
    return result, text + _text(result)


def _summary(played: "EvalResult", args: EvaluateArgs) -> dict[str, Any]:
    """Return means over seeds, and the spread of the win rate: over episodes for one seed, otherwise over seeds."""
    import numpy as np

    rate = float(played.win_rate.mean())
    spread = stats.spread(np.asarray(played.win_rate), (0.0, 1.0)) or stats.wilson_spread(rate, args.episodes)
    interval = {"low": float(spread.low), "high": float(spread.high), "name": spread.name}
    means = {name: _rates.mean(np.asarray(mean)) for name, mean in played.means().items()}
    return {"episodes": args.episodes, "win_rate": rate, "win_rate_spread": interval} | means


def _text(result: dict[str, Any]) -> list[str]:
    spread = result["win_rate_spread"]
    return [
        f"  win rate  {result['win_rate']:.3f}  ({spread['low']:.3f} to {spread['high']:.3f}, {spread['name']})",
        f"  return    {result['return_mean']:.3f}",
        f"  length    {result['length_mean']:.1f} steps",
        f"  won in    {_rates.steps(result['won_length_mean']).strip()} steps",
        *(f"  {name:<9} {value:.3f}" for name, value in result.items() if name.startswith("metrics.")),
    ]


def _evaluate_by_task(run: RunDir, setup: Setup, args: EvaluateArgs, about: dict[str, int]) -> None:
    import numpy as np

    from refil.training.evaluation import without_nan

    if not args.elsewhere:
        serialization.check_folder(run.path / run_dir.BY_TASK)
    times = _model_times(run)
    played = _play(run, setup, args)
    if _model_times(run) != times:
        raise RefilError(f"{args.run} is still training, and its models changed during the evaluation; try again when it ends")
    names = setup.env.task_names
    means = {name: dict(zip(names, mean.tolist(), strict=True)) for name, mean in played.means().items()}
    means["won_length_mean"] = {name: without_nan(lengths) for name, lengths in means["won_length_mean"].items()}
    rates = dict(zip(names, played.win_rate.tolist(), strict=True))
    if not args.elsewhere:  # figures show the tasks of training
        won = np.rint(args.episodes * np.asarray(played.win_rate, float)).astype(int)
        run.write_by_task(args.episodes, dict(zip(names, won.tolist(), strict=True)), **means)
        rates = run.by_task()
    if args.json:
        print(json.dumps({"episodes": args.episodes, "win_rate": rates} | means | about))
        return
    episodes = f"{args.episodes:,} greedy episodes per seed and task"
    print(f"{_where(args)}: fresh evaluation, mean of {_count_seeds(run)}, {episodes}")
    for line in _note(about):
        print(line)
    print("\n".join(_rates.by_task(names, rates, means)))


def _play(run: RunDir, setup: Setup, args: EvaluateArgs, chosen: int | None = None) -> "EvalResult":
    """Play with the models of all seeds, or with a chosen one on episodes that no model has played before."""
    import jax

    from refil.training import devices, evaluation, memory

    memory.check_episodes(setup.env, args.episodes * len(run.seeds), "--episodes")
    models = run.load_models(jax.eval_shape(setup.method.init, jax.random.key(0)))
    key, count, env, episodes = jax.random.key(args.seed), len(run.seeds), setup.env, args.episodes
    keys = jax.random.split(key, count)
    if chosen is not None:
        models = jax.tree.map(lambda leaf: leaf[chosen : chosen + 1], models)
        keys = jax.random.split(key, count + 1)[count:]
    with ProgressBar() as progress, hosted.reporting_to(progress.update):
        text = f"compiling and playing {episodes:,} episode{'s' if episodes > 1 else ''} per seed on"
        if args.by_task:
            progress.phase(f"{text} each of {len(env.task_names)} tasks")
            return evaluation.evaluate_by_task(env, models, episodes, keys, lambda task: progress.update(f"{text} {task}"))
        progress.phase(f"{text} {args.env or run.config.env.name}")
        return devices.run(env, lambda models, keys: evaluation.evaluate(env, models, episodes, keys), models, keys)


def _count_seeds(run: RunDir) -> str:
    return f"{len(run.seeds)} seed{'s' if len(run.seeds) > 1 else ''}"


def _model_times(run: RunDir) -> list[int]:
    return [path.stat().st_mtime_ns for path in run.model_paths()]
