"""Where metrics go besides the run's own file; each is imported only if it is asked for."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from refil.errors import RefilError
from refil.training.config import Experiment

Line = dict[str, Any]
Log = Callable[[Line], None]


def open_all(experiment: Experiment, folder: Path, stack: ExitStack) -> list[Log]:
    """The loggers that the options ask for; they close with the stack."""
    logs: list[Log] = []
    if experiment.options.tensorboard:
        logs.append(tensorboard(folder, stack))
    if experiment.options.wandb:
        logs.append(wandb(experiment, folder, stack))
    return logs


def numbers(line: Line) -> Line:
    """What of a line is a curve."""
    return {name: value for name, value in line.items() if name not in ("seed", "env_steps") and value is not None}


def tensorboard(folder: Path, stack: ExitStack) -> Log:
    """One TensorBoard run per seed, environment steps along the axis."""
    try:
        from tensorboard.summary import Writer
    except ImportError as error:
        raise RefilError("--tensorboard needs the extra: pip install 'refil[tensorboard]'") from error
    writers: dict[int, Any] = {}

    def log(line: Line) -> None:
        if line["seed"] not in writers:
            writers[line["seed"]] = Writer(str(folder / "tensorboard" / f"seed_{line['seed']}"))
            stack.callback(writers[line["seed"]].close)
        for name, value in numbers(line).items():
            writers[line["seed"]].add_scalar(name, value, line["env_steps"])

    return log


def wandb(experiment: Experiment, folder: Path, stack: ExitStack) -> Log:
    """One W&B run with curves per seed, environment steps along the axis."""
    try:
        import wandb
    except ImportError as error:
        raise RefilError("--wandb needs the extra: pip install 'refil[wandb]'") from error
    config = {"env": experiment.env, "method": experiment.method, "config": experiment.to_json()}
    run = wandb.init(project=experiment.options.wandb, name=folder.name, dir=str(folder), config=config)
    stack.callback(run.finish)

    def log(line: Line) -> None:
        seed = f"seed_{line['seed']}"
        run.define_metric(f"{seed}/*", step_metric=f"{seed}/env_steps")
        run.log({f"{seed}/{name}": value for name, value in (numbers(line) | {"env_steps": line["env_steps"]}).items()})

    return log
