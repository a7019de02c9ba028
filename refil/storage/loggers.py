"""Loggers: destinations of metrics other than the run's own file. Their libraries are imported only when they are used.

Each seed is a run of its own there. A resumed run continues the curves of the killed one: what was logged after the checkpoint
and is now logged again appears once.
"""

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from refil.errors import RefilError
from refil.storage import run_dir, serialization
from refil.training.config import RunConfig

Line = dict[str, Any]
Logger = Callable[[Line], None]
WANDB_IDS = "wandb.json"  # the id of every seed's run at Weights & Biases, in the folder of the run
SECONDS_BETWEEN_FLUSHES = 1  # a killed process loses the events that it has not flushed


def open_loggers(config: RunConfig, path: Path, stack: ExitStack) -> list[Logger]:
    """Open the loggers that a config asks for; they are closed with the stack."""
    loggers: list[Logger] = []
    if config.output.tensorboard:
        loggers.append(_tensorboard(config, path, stack))
    if config.output.wandb:
        loggers.append(_wandb(config, path, stack))
    return loggers


def _curves(line: Line) -> Line:
    return {name: value for name, value in line.items() if name not in ("seed", "env_steps") and value is not None}


def _config(config: RunConfig, seed: int) -> dict[str, Any]:
    return json.loads(config.to_json()) | {"seed": seed}


def _tensorboard(config: RunConfig, path: Path, stack: ExitStack) -> Logger:
    try:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # pyright: ignore[reportAttributeAccessIssue]
        from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise RefilError("output.tensorboard needs the extra 'tensorboard': pip install 'refil[tensorboard]'") from error
    writers: dict[int, Any] = {}

    def log(line: Line) -> None:
        seed, step = line["seed"], line["env_steps"]
        if seed not in writers:
            writer = writers[seed] = EventFileWriter(
                str(path / "tensorboard" / f"seed_{seed}"), flush_secs=SECONDS_BETWEEN_FLUSHES
            )
            stack.callback(writer.close)
            # Readers drop events of earlier files from this step on.
            writer.add_event(Event(wall_time=time.time(), step=step, session_log=SessionLog(status=SessionLog.START)))
            options = hparams_pb(dict(_flat(_config(config, seed))), trial_id=f"{path.resolve().name}/seed_{seed}")
            writer.add_event(Event(wall_time=time.time(), summary=options))
        values = [Summary.Value(tag=name, simple_value=value) for name, value in _curves(line).items()]
        writers[seed].add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    return log


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, bool | float | str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", value if isinstance(value, bool | int | float | str) else json.dumps(value)


def _wandb(config: RunConfig, path: Path, stack: ExitStack) -> Logger:
    try:
        import wandb  # pyright: ignore[reportMissingImports] (an optional dependency)
    except ImportError as error:
        raise RefilError("output.wandb needs the extra 'wandb': pip install 'refil[wandb]'") from error
    seeds = range(config.train.seed, config.train.seed + config.train.seeds)
    runs: dict[int, Any] = {}
    for seed, identifier in _wandb_ids(path / WANDB_IDS, seeds).items():
        runs[seed] = wandb.init(
            project=config.output.wandb,
            group=path.resolve().name,
            name=f"seed_{seed}",
            id=identifier,
            resume="allow",
            reinit="create_new",  # several runs at a time
            config=_config(config, seed),
            allow_val_change=True,  # options that may change when a run is resumed
            dir=str(path),
        )
        stack.callback(runs[seed].finish)

    def log(line: Line) -> None:
        run = runs[line["seed"]]
        if line["env_steps"] >= run.step:  # smaller steps were logged before the run was resumed
            run.log(_curves(line), step=line["env_steps"])

    # Offline, every process writes a folder, and what a killed one had not flushed is lost: the last folder has all points.
    if any(run.offline for run in runs.values()):
        for line in run_dir.RunDir(path).saved_metrics():
            log(line)
    return log


def _wandb_ids(path: Path, seeds: range) -> dict[int, str]:
    """Return the stored id of every seed's run; write new ids for seeds that have none."""
    stored: dict[str, str] = {}
    if path.exists():
        try:
            stored = {
                str(seed): str(identifier) for seed, identifier in dict(json.loads(serialization.read_text(path))).items()
            }
        except (ValueError, TypeError, RecursionError) as error:
            raise RefilError(f"{path} is damaged: {error}; without it, W&B would show a new run per seed") from error
    ids = {str(seed): stored.get(str(seed)) or secrets.token_hex(8) for seed in seeds}
    if ids.items() - stored.items():
        serialization.write_atomic(path, (json.dumps(stored | ids, indent=2) + "\n").encode())
    return {seed: ids[str(seed)] for seed in seeds}
