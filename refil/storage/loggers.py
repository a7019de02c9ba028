"""Loggers: destinations of metrics other than the run's own file. Their libraries are imported only when they are used."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from refil.errors import RefilError
from refil.training.config import RunConfig

Line = dict[str, Any]
Logger = Callable[[Line], None]


def open_loggers(config: RunConfig, path: Path, stack: ExitStack) -> list[Logger]:
    """Open the loggers that a config asks for; they are closed with the stack."""
    loggers: list[Logger] = []
    if config.output.tensorboard:
        loggers.append(_tensorboard(path, stack))
    if config.output.wandb:
        loggers.append(_wandb(config, path, stack))
    return loggers


def _curves(line: Line) -> Line:
    return {name: value for name, value in line.items() if name not in ("seed", "env_steps") and value is not None}


def _tensorboard(path: Path, stack: ExitStack) -> Logger:
    try:
        from tensorboard.summary import Writer
    except ImportError as error:
        raise RefilError("output.tensorboard needs the extra 'tensorboard': pip install 'refil[tensorboard]'") from error
    writers: dict[int, Any] = {}

    def log(line: Line) -> None:
        seed = line["seed"]
        if seed not in writers:  # each seed is a TensorBoard run, so that its curves can be compared
            writers[seed] = Writer(str(path / "tensorboard" / f"seed_{seed}"))
            stack.callback(writers[seed].close)
        for name, value in _curves(line).items():
            writers[seed].add_scalar(name, value, line["env_steps"])

    return log


def _wandb(config: RunConfig, path: Path, stack: ExitStack) -> Logger:
    try:
        import wandb  # pyright: ignore[reportMissingImports] (an optional dependency)
    except ImportError as error:
        raise RefilError("output.wandb needs the extra 'wandb': pip install 'refil[wandb]'") from error
    values = {"env": config.env.name, "method": config.method.name, "config": config.to_json()}
    run = wandb.init(project=config.output.wandb, name=path.name, dir=str(path), config=values)
    stack.callback(run.finish)

    def log(line: Line) -> None:
        seed = f"seed_{line['seed']}"
        run.define_metric(f"{seed}/*", step_metric=f"{seed}/env_steps")
        run.log({f"{seed}/{name}": value for name, value in (_curves(line) | {"env_steps": line["env_steps"]}).items()})

    return log
