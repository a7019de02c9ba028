"""Arguments that decide which options a command has: environment, method, and the files that name them."""

from dataclasses import dataclass, fields
from pathlib import Path

from refil.errors import RefilError
from refil.storage import serialization
from refil.training import config
from refil.training.config import RunConfig

DEFAULT_ENV, DEFAULT_METHOD = "group_matching", "refil"


@dataclass(frozen=True)
class EarlyArgs:
    """Arguments that are read before all options are known."""

    env: str | None = None
    method: str | None = None
    config: str | None = None
    resume: str | None = None
    out: str | None = None


def split_early_args(arguments: list[str]) -> tuple[EarlyArgs, list[str]]:
    """Return the early arguments, and the rest."""
    found, remaining = {}, list(arguments)
    if remaining and not remaining[0].startswith("-"):
        found["env"] = remaining.pop(0)
    names = {f"--{field.name}": field.name for field in fields(EarlyArgs) if field.name != "env"}
    rest, words = [], iter(remaining)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in names:
            rest.append(word)
            continue
        value = value if equals else next(words, "")
        if not value or value.startswith("--"):
            raise RefilError(f"{name} needs a value")
        found[names[name]] = value
    return EarlyArgs(**found), rest


def base_config(early: EarlyArgs) -> RunConfig:
    """Return the config before any option of the command line is applied."""
    if early.config is None:
        return config.default(early.env or DEFAULT_ENV, early.method or DEFAULT_METHOD)
    if early.env is not None or early.method is not None:
        raise RefilError("--config sets the environment and the method; omit ENV and --method")
    return config.read(serialization.read_text(Path(early.config)), early.config)
