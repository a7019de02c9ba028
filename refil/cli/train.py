"""Train a method on an environment, or go on with a run."""

import shlex
import sys
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from refil import plugins, settings
from refil.errors import RefilError
from refil.storage import run_dir, serialization
from refil.storage.run_dir import Run
from refil.training import config as experiment
from refil.training.config import ENVS, METHODS, Experiment, Options

DEFAULT_ENV, DEFAULT_METHOD = "group_matching", "refil"
TO_COMPARE = (DEFAULT_METHOD, "qmix_attention")  # what a run is best compared with
HELP = """Train a method on an environment, or go on with a run.

    refil train [ENV] [--method NAME] [--out DIR] [options]

    refil train --config FILE [--out DIR] [options]

    refil train --resume RUN [options]

ENV is {envs}, or the path of a Python file with an environment in it.

--method NAME is {methods}, or the path of a Python file with a method in it.

--out DIR is the new run's folder (by default one under runs/).

--config FILE takes the environment, the method and all options from a run's config.json.

--resume RUN goes on with a run; only {changeable} may differ then.

Shown below are the options and defaults of {env} with {method}."""


@dataclass(frozen=True)
class Words:
    """What the line says before its options can be known."""

    env: str | None = None
    method: str | None = None
    config: str | None = None
    resume: str | None = None
    out: str | None = None


def main(arguments: list[str]) -> None:
    """Train, and say what came of it."""
    words, rest = split(arguments)
    if words.resume is not None:
        finished, run = resume(words, rest)
    else:
        finished, run = start(words, rest)
    if not finished:
        print(f"Stopped; everything is saved. Go on with:\n  refil train --resume {shlex.quote(str(run.path))}")
        sys.exit(130)
    conclude(run)


def split(arguments: list[str]) -> tuple[Words, list[str]]:
    """The words that decide which options there are, and the options."""
    found, rest = {}, list(arguments)
    if rest and not rest[0].startswith("-"):
        found["env"] = rest.pop(0)
    options = {settings.option([field.name]): field.name for field in fields(Words) if field.name != "env"}
    left, remaining = [], iter(rest)
    for word in remaining:
        name, equals, value = word.partition("=")
        if name not in options:
            left.append(word)
            continue
        value = value if equals else next(remaining, "")
        if not value or value.startswith("--"):
            raise RefilError(f"{name} needs a value")
        found[options[name]] = value
    return Words(**found), left


def start(words: Words, rest: list[str]) -> tuple[bool, Run]:
    """A new run."""
    asked = parse(words, default(words), rest)
    asked.build()  # refuses what cannot be before anything is written
    path = Path(words.out) if words.out else default_folder(asked)
    with run_dir.locked(path):
        run = run_dir.create(path, asked)
        return trained(asked, run, resume=False), run


def resume(words: Words, rest: list[str]) -> tuple[bool, Run]:
    """Go on with a run."""
    for name in ("env", "method", "config", "out"):
        if getattr(words, name) is not None:
            raise RefilError(f"--resume takes everything from the run's folder; leave out {name} ({getattr(words, name)})")
    run = run_dir.existing(Path(words.resume or ""))
    with run_dir.locked(run.path):
        saved = run.experiment
        asked = experiment.continued(saved, parse(words, saved, rest))
        check_steps(run, saved, asked)
        asked.build()
        return trained(asked, run, resume=True), run


def check_steps(run: Run, saved: Experiment, asked: Experiment) -> None:
    """Refuse an end that lies behind."""
    made, steps = max((line["env_steps"] for line in run.metrics()), default=0), asked.options.steps
    if steps < min(saved.options.steps, made):
        raise RefilError(f"--steps {steps} is fewer than the {made} that {run.path} has made")


def trained(asked: Experiment, run: Run, resume: bool) -> bool:
    """Whether training came to its end."""
    from refil.training import trainer

    return trainer.run(asked, run, resume)


def default(words: Words) -> Experiment:
    """What is to be trained, before any option is read."""
    if words.config is None:
        return experiment.default(words.env or DEFAULT_ENV, words.method or DEFAULT_METHOD)
    if words.env is not None or words.method is not None:
        raise RefilError("--config says which environment and method; leave out ENV and --method")
    return experiment.read(serialization.read_text(Path(words.config)), words.config)


def parse(words: Words, base: Experiment, rest: list[str]) -> Experiment:
    """The experiment with the options of the line."""
    text = HELP.format(
        envs=", ".join(plugins.names(ENVS)),
        methods=", ".join(plugins.names(METHODS)),
        changeable=", ".join(experiment.CHANGEABLE),
        env=base.env,
        method=base.method,
    )
    return replace(base, options=settings.from_command_line(Options, rest, "refil train", text, base.options))


def default_folder(asked: Experiment) -> Path:
    """A folder that does not exist yet."""
    stem = f"{Path(asked.env).stem}-{Path(asked.method).stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    return next(path for n in range(1000) if not (path := Path("runs") / (f"{stem}-{n}" if n else stem)).exists())


def conclude(run: Run) -> None:
    """The curve's picture, the result in words, and what to try next."""
    for line in report(run):
        print(line)
    try:
        with serialization.require_matplotlib():
            from refil.plots import learning_curves
    except RefilError as error:
        print(error)
    else:
        serialization.save_figure(learning_curves.draw({run.experiment.method: [run]}), run.path / run_dir.CURVE)
        print(f"The learning curve is drawn in {run.path / run_dir.CURVE}")
    asked = run.experiment
    other = next(method for method in TO_COMPARE if method != asked.method)
    here, beside, env = map(shlex.quote, (str(run.path), f"{run.path}-{other}", asked.env))
    print("Try next:")
    print(f"  refil evaluate {here} --episodes 200")
    print(f"  refil train --resume {here} --steps {2 * asked.options.steps}")
    print(f"  refil train {env} --method {other} {' '.join(changed(asked, other))} --out {beside}")
    print(f"  refil plot {here} {beside} --out curves.png")


def changed(asked: Experiment, other: str) -> list[str]:
    """The options of a run that are not the defaults, but for those that another method does not have, as they are typed."""
    differences = settings.differences(experiment.default(asked.env, asked.method).options, asked.options)
    there = {settings.option(["method", field.name]) for field in fields(experiment.default(asked.env, other).options.method)}
    common = {name: value for name, (_, value) in differences.items() if not name.startswith("--method.") or name in there}
    return [typed(name, value) for name, value in common.items() if value is not None]


def typed(name: str, value: Any) -> str:
    """An option with its value, as a user types it."""
    if isinstance(value, bool):
        *groups, last = name.removeprefix("--").split(".")
        return name if value else "--" + ".".join([*groups, f"no-{last}"])
    return " ".join([name, *map(str, value if isinstance(value, tuple) else [value])])


def report(run: Run) -> list[str]:
    """How far the seeds came."""
    asked, by_seed = run.experiment, {}
    for line in run.metrics():
        if "win_rate" in line:
            by_seed.setdefault(line["seed"], []).append(line)
    first = [curve[0]["win_rate"] for curve in by_seed.values()]
    last = [curve[-1]["win_rate"] for curve in by_seed.values()]
    seconds = max(curve[-1]["seconds"] for curve in by_seed.values())
    seeds = f"{len(last)} seed{'s' if len(last) > 1 else ''}"
    mean_first, mean_last = sum(first) / len(first), sum(last) / len(last)
    return [
        f"{asked.method} on {asked.env}: {seeds}, {asked.options.steps:,} steps each, {seconds:.0f} s.",
        f"Greedy episodes won: {mean_first:.0%} at first, {mean_last:.0%} in the end "
        f"(by seed: {', '.join(f'{rate:.0%}' for rate in last)}).",
    ]
