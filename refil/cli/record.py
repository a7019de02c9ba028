"""Record episodes of a trained team, or of random actions, as a dataset for offline reinforcement learning."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from refil import settings
from refil.errors import RefilError, list_choices
from refil.settings import NonNegativeInt, PositiveInt, UnitFloat


@dataclass(frozen=True)
class RecordArgs:
    """The episodes to record, and the file to write."""

    # Team that ships with refil, folder of a run, or environment to play with random actions; a name is a team first
    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
    out: Path  # File to write: .npz or .safetensors
    episodes: PositiveInt = 100  # Number of episodes
    task: str | None = None  # Name of the task to play (None: random tasks)
    epsilon: UnitFloat = 0.0  # Probability that an agent of a trained team acts randomly
    random: bool = False  # Play with random actions, also where a team has the name of the environment
    seed: NonNegativeInt = 0  # Seed of the episodes
    model: NonNegativeInt | None = None  # Training seed whose model plays (None: the first seed of the run)
    trust: bool = False  # Run the code that the run contains, which somebody else may have written: read it first


def main(arguments: list[str]) -> None:
    """Play episodes and write them to one file."""
    args = settings.from_command_line(RecordArgs, arguments, "refil record", __doc__)
    from refil import datasets, hosted
    from refil.storage.progress import ProgressBar

    datasets.check_path(args.out)
    with ProgressBar() as progress, hosted.reporting_to(progress.update):
        progress.phase("compiling")

        def show(done: int) -> None:
            if done:
                progress.phase(f"recorded {done:,} of {args.episodes:,} episodes")

        dataset = (_record_random if _is_random(args) else _record_team)(args, show)
        progress.phase(f"writing {args.out}")
        datasets.write_dataset(dataset, args.out)
    steps, megabytes = int(dataset.valid.sum()), args.out.stat().st_size / 1e6
    won = float(dataset.won.mean())
    print(f"{args.out}: {len(dataset):,} episodes, {steps:,} steps, win rate {won:.3f}, {megabytes:.1f} MB")


def _is_random(args: RecordArgs) -> bool:
    """Return whether actions are random; raise for options that only a team has."""
    from refil import teams

    is_team = args.source in teams.names() or _is_run(args)
    if is_team and not args.random:
        return False
    if args.epsilon or args.model is not None:
        flag = "--epsilon" if args.epsilon else "--model"
        raise RefilError(f"{flag} needs a trained team; {args.source} is played with random actions")
    return True


def _is_run(args: RecordArgs) -> bool:
    from refil.storage import run_dir

    return (Path(args.source) / run_dir.CONFIG).exists()


def _record_team(args: RecordArgs, show: Any) -> Any:
    from refil import datasets, recording, teams

    config = teams.config_of(args.source, args.trust)
    config.configure()
    team = teams.load_any(args.source, args.model, args.trust)
    policy = f"{config.method.name}, seed {team.seed}, epsilon {args.epsilon:g}"
    about = datasets.describe(config.env.name, config.env.options, team.env, policy, args.seed)
    task = _task_number(args.task, team.env.task_names)
    options: dict[str, Any] = {"model": team.model, "epsilon": args.epsilon, "task": task, "seed": args.seed}
    return recording.record(team.env, args.episodes, about, **options, progress=show)


def _record_random(args: RecordArgs, show: Any) -> Any:
    from refil import datasets, recording, teams
    from refil.training import config as configs

    if _is_run(args):
        config = teams.config_of(Path(args.source), args.trust)
    elif "/" in args.source and not args.source.endswith(".py"):
        raise RefilError(f"{args.source} is not the folder of a run")
    else:
        config = teams.config(args.source) if args.source in _only_teams() else configs.default(args.source, "refil")
    config.configure()
    env = config.build_env()
    about = datasets.describe(config.env.name, config.env.options, env, "random actions", args.seed)
    task = _task_number(args.task, env.task_names)
    return recording.record(env, args.episodes, about, task=task, seed=args.seed, progress=show)


def _only_teams() -> set[str]:
    """Return the names of teams that no environment has."""
    from refil import plugins, teams
    from refil.training import config as configs

    return {*teams.names()} - {*plugins.names(configs.ENVS)}


def _task_number(task: str | None, names: tuple[str, ...]) -> int | None:
    if task is not None and task not in names:
        raise RefilError(f"unknown task {task!r}; {list_choices(task, names)}")
    return None if task is None else names.index(task)
