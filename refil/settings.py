"""Frozen dataclass trees as settings: checked, read from a command line, and to and from JSON.

Nothing here knows any option; options stand beside the code that reads them.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from refil.errors import RefilError

Settings = TypeVar("Settings")


@dataclass(frozen=True)
class Range:
    """The numbers an option may take, both ends included."""

    low: float | int
    high: float | int = float("inf")

    def __str__(self) -> str:
        return f"{self.low:,} or more" if self.high == float("inf") else f"from {self.low:,} to {self.high:,}"


LARGEST = 10**9  # what is counted on a device has 32 bits, and two such numbers are added there
PositiveInt = Annotated[int, Range(1, LARGEST)]
NonNegativeInt = Annotated[int, Range(0, LARGEST)]
UnitFloat = Annotated[float, Range(0, 1)]
NonNegativeFloat = Annotated[float, Range(0)]


def option(path: Sequence[str]) -> str:
    """The name of an option as it is typed."""
    return "--" + ".".join(path).replace("_", "-")


def check(settings: Any, path: tuple[str, ...] = ()) -> None:
    """Refuse numbers out of their option's range."""
    hints = get_type_hints(type(settings), include_extras=True)
    for field in dataclasses.fields(settings):
        value, here = getattr(settings, field.name), (*path, field.name)
        if dataclasses.is_dataclass(value):
            check(value, here)
        for allowed in ranges(hints[field.name]):
            for number in value if isinstance(value, tuple) else (value,):
                if number is not None and not allowed.low <= number <= allowed.high:
                    raise RefilError(f"{option(here)} must be {allowed}, not {number}")


def ranges(hint: Any) -> list[Range]:
    """The ranges in an annotation, also of one among several types."""
    own = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, Range)]
    return own + [found for part in get_args(hint) if part is not hint for found in ranges(part)]


def apply_defaults(settings: Settings, defaults: Any) -> Settings:
    """These settings with the defaults of the same names in place of their own."""
    known = {field.name for field in dataclasses.fields(settings)}  # type: ignore[arg-type]
    shared = {field.name: getattr(defaults, field.name) for field in dataclasses.fields(defaults) if field.name in known}
    return dataclasses.replace(settings, **shared)  # type: ignore[type-var]


def differences(ours: Any, theirs: Any, path: tuple[str, ...] = ()) -> dict[str, tuple[Any, Any]]:
    """The options in which two settings of one kind differ, with both values."""
    found: dict[str, tuple[Any, Any]] = {}
    for field in dataclasses.fields(ours):
        one, other, here = getattr(ours, field.name), getattr(theirs, field.name), (*path, field.name)
        if dataclasses.is_dataclass(one):
            found |= differences(one, other, here)
        elif one != other:
            found[option(here)] = (one, other)
    return found


def from_command_line(kind: type[Settings], arguments: Sequence[str], program: str, text: str, default: Any = None) -> Settings:
    """Settings of a kind, with every option that was typed in its place; `--help` shows the text and all options."""
    import tyro

    given = {} if default is None else {"default": default}
    settings = tyro.cli(kind, args=list(arguments), prog=program, description=text, **given)
    check(settings)
    return settings


def from_json(default: Settings, values: Any, path: tuple[str, ...] = ()) -> Settings:
    """The default with the values of a JSON object in place; names and types must fit."""
    where = option(path) if path else "the config"
    if not isinstance(values, dict):
        raise RefilError(f"{where} should be an object, not {values!r}")
    fields = {field.name: getattr(default, field.name) for field in dataclasses.fields(default)}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            raise RefilError(f"{where} has no {name!r}; it has {', '.join(sorted(fields))}")
    hints = get_type_hints(type(default))
    read = {name: coerce(fields[name], value, (*path, name), hints[name]) for name, value in values.items()}
    settings = dataclasses.replace(default, **read)  # type: ignore[type-var]
    if not path:
        check(settings)
    return settings


def coerce(default: Any, value: Any, path: tuple[str, ...], hint: Any) -> Any:
    """A JSON value as the option's own type."""
    if dataclasses.is_dataclass(default):
        return from_json(default, value, path)
    may_be_left_out = hint is Any or type(None) in get_args(hint)
    if may_be_left_out and (default is None or value is None):
        return value
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(default, tuple) and isinstance(value, list):
        kind = get_args(hint)[0]
        return tuple(coerce(kind(), each, path, kind) for each in value)
    if type(value) is not type(default):
        kind = "list" if isinstance(default, tuple) else type(default).__name__
        raise RefilError(f"{option(path)} should be of type {kind}, not {json.dumps(value)}")
    if get_origin(hint) is Literal and value not in get_args(hint):
        raise RefilError(f"{option(path)} should be one of {', '.join(get_args(hint))}, not {value}")
    return value
