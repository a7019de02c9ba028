"""Environments to evaluate a trained team in that differ from its own: other tasks of its set, or another set."""

from dataclasses import fields, replace
from typing import Any

from refil import plugins, settings
from refil.errors import RefilError
from refil.training import config as configs
from refil.training import contracts
from refil.training.config import Choice, RunConfig
from refil.types import Env, Spec


def build_env(config: RunConfig, name: str | None = None, tasks: str | None = None) -> Env:
    """Build the environment of a run with other tasks, or another environment with those options of the run that it has.

    Both environments need the same features and actions, in number and in name.
    """
    own = config.build_env()
    choice = config.env if name is None else _other(config.env, name)
    if tasks is not None:
        if not hasattr(choice.options, "tasks"):
            raise RefilError(f"{choice.name} has no tasks to train on and to hold out; task sets of StarCraft have")
        choice = replace(choice, options=settings.from_json(choice.options, {"tasks": tasks}, ("env",)))
    other = replace(config, env=choice).build_env()
    if sizes(own.spec) != sizes(other.spec):
        hint = "; a team trained with env.tags 12 plays in armies of up to 12 units" if hasattr(choice.options, "tags") else ""
        raise RefilError(f"the run needs an environment with {sizes(own.spec)}; {choice.name} has {sizes(other.spec)}{hint}")
    if any(getattr(own, names, None) != getattr(other, names, None) for names in ("feature_names", "action_names")):
        raise RefilError(f"a team of {config.env.name} cannot play in {choice.name}: its features or actions differ")
    return other


def sizes(spec: Spec) -> str:
    """Return in words what an environment must share with another one for the same team to play in both."""
    return f"{spec.features} features and {spec.actions} actions"


def _other(own: Choice, name: str) -> Choice:
    """Return another environment with those options of the first one that both have; it plays all tasks."""
    found, sha256 = plugins.identify(name)
    options: Any = contracts.default_options(plugins.load(configs.ENVS, found, sha256), found, ("config",))
    kept = {field.name for field in fields(options)} & {field.name for field in fields(own.options)} - {"tasks", "limit"}
    options = replace(options, **{each: getattr(own.options, each) for each in kept})
    return Choice(found, options, sha256)
