"""Train a method on an environment, or resume a run."""

import shlex
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np

from refil import plugins, settings, stats, teams
from refil.cli import _flags
from refil.cli._early_args import DEFAULT_METHOD, EarlyArgs, base_config, split_early_args
from refil.cli._training import check, hint, run_training
from refil.errors import RefilError
from refil.storage import initial, run_dir, serialization
from refil.storage.progress import ProgressBar
from refil.storage.run_dir import RunDir
from refil.training import config as configs
from refil.training import stored
from refil.training.config import CHANGEABLE, ENVS, METHODS, RunConfig

# Methods to compare a run with, by the algorithm that trains them
BASELINES = {"replay": (DEFAULT_METHOD, "qmix_attention"), "onpolicy": ("refil_pqn", "qmix_pqn")}
REPLAYED = 5  # episodes in the page of --replay
HELP = """Train a method on an environment, or resume a run.

    refil train [ENV] [--method NAME] [--init-from RUN] [--out DIR] [options]

    refil train --config FILE [--out DIR] [--trust] [options]

    refil train --resume RUN [--trust] [options]

ENV: {envs}, any two armies such as 3s5z_vs_3s6z, or the path of a Python file that defines an environment.

--method NAME: {methods}, or the path of a Python file that defines a method.

--out DIR: folder of the new run (default: a new one in runs/).

--config FILE: take the environment, the method and all options from the config.json of another run.

--resume RUN: continue the run in this folder from its last checkpoint; only {changeable} may differ from the first time.

--init-from RUN: start all seeds from the first model of another run, or from the model in a file (model_seed_N.safetensors).

--trust: run the Python files that come with RUN or FILE, which somebody else may have written; read them first.

The options and defaults below are those of {env} with {method}."""


def main(arguments: list[str]) -> None:
    """Train, draw the learning curve and print a summary."""
    early, rest = split_early_args(arguments)
    finished, run = _resume(early, rest) if early.resume is not None else _start(early, rest)
    if not finished:
        print(f"Stopped; the run is saved. Resume it with:\n  refil train --resume {shlex.quote(str(run.path))}")
        sys.exit(130)
    _report(run)


def non_default_flags(config: RunConfig, method: str) -> list[str]:
    """Return the flags of all options that are not at their defaults, except those that another method does not have."""
    default = configs.default_like(config)
    flags = settings.flags(config)
    known = {f"method.{field.name}" for field in fields(configs.default_like(config, method).method.options)}
    changed = {path: value for path, (_, value) in configs.differences(default, config).items() if value is not None}
    kept = {path: value for path, value in changed.items() if not path.startswith("method.") or path in known}
    return [_flags.format_flag(flags[path], value) for path, value in kept.items()]


def _start(early: EarlyArgs, rest: list[str]) -> tuple[bool, RunDir]:
    config = _parse(base_config(early), rest)
    setup = check(config)  # raises before anything is written
    init = initial.load(_weights(early.init_from), setup) if early.init_from else None
    if advice := hint(config):
        print(advice)
    if early.config and init is None and (weights := Path(early.config).parent / initial.INIT).exists():
        print(f"This run starts from random weights; add --init-from {weights} to start where {early.config} did.")
    path = Path(early.out) if early.out else _new_folder(config)
    with run_dir.locked(path):
        run = run_dir.create(path, config, init)
        return run_training(config, run, resume=False), run


def _weights(name: str) -> Path:
    """Return the path of weights to start from; raise for a team that ships with refil."""
    if "/" not in name and name in teams.names():
        reason = "it was shipped without its mixing network, so that training cannot start from it"
        raise RefilError(f"--init-from {name} is a team that can only act: {reason}; give the folder of a run")
    return Path(name)


def _resume(early: EarlyArgs, rest: list[str]) -> tuple[bool, RunDir]:
    for name in ("env", "method", "config", "out", "init_from"):
        if (value := getattr(early, name)) is not None:
            given = value if name == "env" else f"--{name.replace('_', '-')} {value}"
            raise RefilError(f"--resume takes everything from the run's folder; omit {given}")
    run = run_dir.open_run(Path(early.resume or ""), early.trust)
    with run_dir.locked(run.path):
        saved = run.config
        with _flags.flags_in_errors(saved):
            config = configs.resumed(saved, _parse(saved, rest))
            _check_steps(run, saved, config)
        check(config)
        return run_training(config, run, resume=True), run


def _check_steps(run: RunDir, saved: RunConfig, config: RunConfig) -> None:
    done, steps = max((line["env_steps"] for line in run.saved_metrics()), default=0), config.train.steps
    if steps < min(saved.train.steps, done):
        raise RefilError(f"train.steps {steps} is less than the {done} steps that {run.path} has already trained")


def _parse(base: RunConfig, rest: list[str]) -> RunConfig:
    text = HELP.format(
        envs=", ".join(plugins.names(ENVS)),
        methods=", ".join(plugins.names(METHODS)),
        changeable=", ".join(_flags.flag(base, path) for path in CHANGEABLE),
        env=base.env.name,
        method=base.method.name,
    )
    return settings.from_command_line(RunConfig, rest, "refil train", text, base)


def _new_folder(config: RunConfig) -> Path:
    stem = f"{Path(config.env.name).stem.replace(':', '-')}-{Path(config.method.name).stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    return next(path for n in range(1000) if not (path := Path("runs") / (f"{stem}-{n}" if n else stem)).exists())


def _report(run: RunDir) -> None:
    for line in _summary(run):
        print(line)
    config = run.config
    try:
        with serialization.require_matplotlib():
            from refil.plots import _runs, learning_curves
    except RefilError as error:
        print(error)
    else:
        serialization.save_figure(learning_curves.draw({_runs.method_label(run): [run]}), run.path / run_dir.CURVE)
        print(f"Learning curve: {run.path / run_dir.CURVE}")
    if config.output.replay:
        _write_replay(run)
    baselines = BASELINES[configs.algorithm_name(config.method.name, config.method.sha256)]
    baseline = next(method for method in baselines if method != config.method.name)
    env = str(run.path / stored.code_path("env", config.env.name)) if config.env.sha256 else config.env.name
    path, other_path, env = map(shlex.quote, (str(run.path), f"{run.path}-{baseline}", env))
    print("Next steps:")
    print(f"  refil evaluate {path} --episodes 200")
    print(f"  refil train --resume {path} --steps {2 * config.train.steps}")
    print(f"  refil train {env} --method {baseline} {' '.join(non_default_flags(config, baseline))} --out {other_path}")
    print(f"  refil plot {path} {other_path} --out curves.png")


def _write_replay(run: RunDir) -> None:
    from refil import api
    from refil.viewer import export

    with ProgressBar() as progress:
        progress.phase(f"compiling and playing {REPLAYED} episodes for {run_dir.REPLAY}")
        clips = [replay.clip(number) for number, replay in enumerate(api.load(run.path).play(REPLAYED), start=1)]
        written = export.write(clips, export.Outputs(run.path / run_dir.REPLAY))
    print("\n".join(written))


def _summary(run: RunDir) -> list[str]:
    config, lines = run.config, run.metrics()
    by_seed = stats.series(lines, "win_rate")
    first = np.mean([points[0, 1] for points in by_seed.values()])
    finals = np.array([stats.final(points) for points in by_seed.values()])
    seconds = max(line["seconds"] for line in lines)
    speed = config.train.steps * len(finals) / max(seconds, 1e-3)
    seeds = f"{len(finals)} seed{'s' if len(finals) > 1 else ''}"
    took = f"{config.train.steps:,} steps each, {seconds:.0f} s ({speed:,.0f} steps/s in all)"
    text = [
        f"{config.method.name} on {config.env.name}: {seeds}, {took}.",
        f"Final win rate of the greedy policy ({stats.FINAL_MEANING}): {finals.mean():.0%}; first evaluation: {first:.0%}.",
    ]
    if (spread := stats.spread(finals, (0.0, 1.0))) is not None:
        by_seed = ", ".join(f"{rate:.0%}" for rate in finals)
        text.append(f"By seed: {by_seed} ({spread.low:.0%} to {spread.high:.0%}, {spread.name}).")
    return text
