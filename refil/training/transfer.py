"""Environments to evaluate a trained team in that differ from its own: other tasks of its set, or another set."""

from dataclasses import fields, replace
from typing import Any

from refil import plugins, settings
from refil.envs.starcraft import splits
from refil.errors import RefilError
from refil.training import config as configs
from refil.training import contracts
from refil.training.config import PluginConfig, RunConfig
from refil.types import Env, Spec


def build_env(config: RunConfig, name: str | None = None, tasks: str | None = None, draw_seed: int | None = None) -> Env:
    """Build the environment of a run with other tasks, or another environment with those options of the run that it has.

    `draw_seed` draws other multipliers of unit stats. Both environments need the same features and actions, in number and in
    name.
    """
    own = config.build_env()
    choice = config.env if name is None else _other(config.env, name, _varied(own))
    if tasks is not None:
        if not hasattr(choice.options, "tasks"):
            *others, last = splits.held_out()
            refused = f"{choice.name} is not split into training and held-out tasks, so tasks={tasks!r} is not possible"
            raise RefilError(f"{refused}; {', '.join(others)} and {last} are split")
        choice = replace(choice, options=settings.from_json(choice.options, {"tasks": tasks}, ("env",)))
    if draw_seed is not None:
        if not _varied(replace(config, env=choice).build_env()):
            raise RefilError(f"the unit stats of {choice.name} do not vary, so draw_seed {draw_seed} has no effect")
        choice = replace(choice, options=settings.from_json(choice.options, {"draw_seed": draw_seed}, ("env",)))
    other = replace(config, env=choice).build_env()
    if sizes(own.spec) != sizes(other.spec):
        found = f"{choice.name} has {sizes(other.spec)}{_hint(own, other, choice)}"
        raise RefilError(f"the run needs an environment with {sizes(own.spec)}; {found}")
    if any(getattr(own, names, None) != getattr(other, names, None) for names in ("feature_names", "action_names")):
        raise RefilError(f"a team of {config.env.name} cannot play in {choice.name}: its features or actions differ")
    return other


def sizes(spec: Spec) -> str:
    """Return in words what an environment must share with another one for the same team to play in both."""
    return f"{spec.features} features and {spec.actions} actions"


def _hint(own: Env, other: Env, choice: PluginConfig) -> str:
    if own.spec.actions == other.spec.actions and _varied(own) != _varied(other):
        return "; the unit stats that vary (env.vary) must be those of training"
    return "; a team trained with env.tags 12 plays in armies of up to 12 units" if hasattr(choice.options, "tags") else ""


def _varied(env: Env) -> tuple[str, ...]:
    return getattr(env, "varied_stats", ())


def _other(own: PluginConfig, name: str, varied: tuple[str, ...]) -> PluginConfig:
    """Return another environment with those options of the first one that both have; it plays all tasks.

    `varied` are the unit stats that vary in the first one, by its options or as its task set says; they also vary in the other.
    """
    found, sha256 = plugins.identify(configs.ENVS, name)
    options: Any = contracts.default_options(plugins.load(configs.ENVS, found, sha256), found, ("config",))
    kept = {field.name for field in fields(options)} & {field.name for field in fields(own.options)} - {"tasks", "limit"}
    options = replace(options, **{each: getattr(own.options, each) for each in kept})
    if varied and hasattr(options, "vary"):
        options = replace(options, vary=varied)
    return PluginConfig(found, options, sha256)
