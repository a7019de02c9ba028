"""Arguments that decide which options a command has: environment, method, and the files that name them."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

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
    init_from: str | None = None
    trust: bool = False


def split_early_args(arguments: list[str]) -> tuple[EarlyArgs, list[str]]:
    """Return the early arguments, and the rest."""
    found: dict[str, Any] = {}
    remaining = list(arguments)
    if remaining and not remaining[0].startswith("-"):
        found["env"] = _value("ENV", remaining.pop(0))
    names = {f"--{field.name.replace('_', '-')}": field.name for field in fields(EarlyArgs) if field.name != "env"}
    rest, words = [], iter(remaining)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in names:
            rest.append(word)
            continue
        if names[name] in found:
            raise RefilError(f"{name} is given twice")
        if name == "--trust" and equals:
            raise RefilError("--trust takes no value")
        found[names[name]] = name == "--trust" or _value(name, value if equals else next(words, ""))
    return EarlyArgs(**found), rest


def _value(name: str, value: str) -> str:
    if not value or value.startswith("--"):
        raise RefilError(f"{name} needs a value")
    return value


def base_config(early: EarlyArgs) -> RunConfig:
    """Return the config before any option of the command line is applied."""
    if early.config is None:
        return config.default(early.env or DEFAULT_ENV, early.method or DEFAULT_METHOD)
    if early.env is not None or early.method is not None:
        raise RefilError("--config sets the environment and the method; omit ENV and --method")
    path = Path(early.config)
    return config.read(serialization.read_text(path), early.config, path.parent, early.trust)
