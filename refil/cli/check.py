"""Check the properties of an environment or a method: order, padding, invisibility, packing, episode ends, gradients."""

import inspect
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from refil import plugins, settings
from refil.errors import RefilError
from refil.settings import NonNegativeInt

if TYPE_CHECKING:
    from refil.checks.report import Check

ENVS, METHODS = "refil.envs", "refil.methods"
HELP = """Check the properties of an environment or a method, and print a line for each.

    refil check my_env.py

    refil check my_method.py --env 3-8sz

The exit code is 1 if a property does not hold."""


@dataclass(frozen=True)
class CheckArgs:
    """The environment or method to check, and options of the checks."""

    # Environment or method: a name from 'refil list', or the path of a .py file
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    env: str | None = None  # Environment whose sizes and defaults a method is checked with (None: a small artificial one)
    seed: NonNegativeInt = 0  # Random seed


def main(arguments: list[str]) -> None:
    """Run all checks that apply."""
    args = settings.from_command_line(CheckArgs, arguments, "refil check", HELP)
    started, name = time.monotonic(), args.name
    kind, module = _find(name)
    if kind == "environment" and args.env is not None:
        raise RefilError(f"--env is for methods, and {args.name} is an environment")
    title, checks = _environment(module, name, args) if kind == "environment" else _method(module, name, args)
    print(f"{Path(args.name).name}: {title}", flush=True)
    counts = _run(checks)
    found = ", ".join(f"{count} {status}" for status, count in counts.items())
    print(f"{found}, in {time.monotonic() - started:.0f} s")
    if counts["FAILED"]:
        sys.exit(1)


def _run(checks: "list[Check]") -> Counter[str]:
    from refil.checks.report import run_checks

    width, counts = max(len(check.name) for check in checks), Counter[str]()
    for result in run_checks(checks, lambda name: print(f"  {name:<{width}}  ", end="", flush=True)):
        print(f"{result.status:<14}  {result.detail}", flush=True)
        counts[result.status] += 1
    return counts


def _find(name: str) -> tuple[str, Any]:
    """Return whether a plug-in is an environment or a method, and its module; of a file, `build` tells."""
    if not name.endswith(".py"):
        if name in plugins.names(METHODS):
            return "method", plugins.load(METHODS, name)
        try:
            return "environment", plugins.load(ENVS, name)
        except RefilError as error:
            methods = ", ".join(plugins.names(METHODS))
            raise RefilError(f"{error}; or a method: {methods}") from error
    module = plugins.load(ENVS, name)  # a method needs the same names
    parameters = list(inspect.signature(module.build).parameters) if callable(module.build) else []
    if len(parameters) not in (1, 2):
        raise RefilError(f"build({', '.join(parameters)}) of {name} must be build(config) or build(config, spec)")
    return ("environment", "method")[len(parameters) - 1], module


def _environment(module: Any, name: str, args: CheckArgs) -> "tuple[str, list[Check]]":
    from refil.checks import environments
    from refil.training import contracts

    env = contracts.build(module, name, contracts.default_options(module, name, ("config",)))
    contracts.check_env(env, name)
    contracts.dry_run(env, name)
    spec, tasks = env.spec, len(env.task_names)
    sizes = f"{spec.agents} agents, {spec.entities} entities, {spec.features} features, {spec.actions} actions, {tasks} tasks"
    return f"an environment with {sizes}", environments.all_checks(environments.Subject(env, seed=args.seed))


def _method(module: Any, name: str, args: CheckArgs) -> "tuple[str, list[Check]]":
    from refil.checks import batches, methods
    from refil.training import config, contracts
    from refil.training.setup import Setup, TrainConfig

    if args.env is None:
        env, options = batches.RecordedEnv(methods.SPEC), contracts.default_options(module, name, ("config", "spec"))
    else:
        chosen = config.default(args.env, name)
        env, options = chosen.build_env(), chosen.method.options
    built = contracts.build(module, name, options, env.spec)
    algorithm = config.algorithm_config(name)
    contracts.check_method(built, name, algorithm.METHOD)
    contracts.check_learning(Setup(env, built, algorithm.Config(), TrainConfig()), name)
    subject = methods.Subject(methods.as_replay_method(built), env.spec, getattr(module, "COMMUNICATES", False))
    return f"a method, with {args.env or 'random batches'}", methods.all_checks(subject, args.seed)
