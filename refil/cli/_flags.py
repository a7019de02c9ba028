"""Flags in error messages: the library names options by their Python paths, the command line by their flags."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from refil import settings
from refil.errors import RefilError
from refil.training.config import RunConfig

NAMES = {"env.name": "ENV", "method.name": "--method"}  # plug-ins are chosen before their options are known


def flag(config: RunConfig, path: str) -> str:
    """Return the flag of an option of `refil train`."""
    return (settings.flags(config) | NAMES)[path]


def format_flag(name: str, value: Any) -> str:
    """Return a flag with its value as a user types it."""
    if isinstance(value, bool):
        *groups, last = name.removeprefix("--").split(".")
        return name if value else "--" + ".".join([*groups, f"no-{last}"])
    return " ".join([name, *map(str, value if isinstance(value, tuple) else [value])])


@contextmanager
def flags_in_errors(config: RunConfig) -> Iterator[None]:
    """Replace the paths of options in errors by their flags."""
    try:
        yield
    except RefilError as error:
        names = settings.flags(config) | NAMES
        paths = "|".join(re.escape(path) for path in sorted(names, key=len, reverse=True))
        text = re.sub(rf"(?<![\w./-])({paths})(?![\w.]*\w)", lambda found: names[found[0]], str(error))
        raise RefilError(text, error.run) from error
