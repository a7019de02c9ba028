"""Frozen dataclasses as options: range checks, JSON, and the command line.

Nothing here knows any option; options are defined next to the code that reads them.
An option is named by its Python path (`train.steps`) in errors, and by its flag (`--steps`) on the command line.
"""

import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import tyro

from refil.errors import RefilError, list_choices

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """The numbers that an option may take, both ends included."""

    low: float | int
    high: float | int = float("inf")

    def __str__(self) -> str:
        return f"{self.low:,} or more" if self.high == float("inf") else f"from {self.low:,} to {self.high:,}"


MAX_INT = 10**9  # devices count in 32 bits, and add two such numbers
PositiveInt = Annotated[int, Range(1, MAX_INT)]
NonNegativeInt = Annotated[int, Range(0, MAX_INT)]
UnitFloat = Annotated[float, Range(0, 1)]
NonNegativeFloat = Annotated[float, Range(0)]


class FromEnv:
    """Marks an option whose default an environment may choose: `size: Annotated[int, FromEnv] = 64`."""


class _NoPrefix:
    """Marks a group whose options have no prefix on the command line."""


class _Inline:
    """Marks a group whose options are named as if they belonged to the group around it."""


Flat = Annotated[T, tyro.conf.arg(name=""), _NoPrefix]  # `train: Flat[TrainConfig]`: path `train.steps`, flag `--steps`
Inline = Annotated[T, tyro.conf.arg(name=""), _Inline]  # `options: Inline[Any]` in `env`: path `env.x`, flag `--env.x`


class Option(NamedTuple):
    """One option of a tree of dataclasses: its Python path, its flag, its annotation and its value."""

    path: str
    flag: str
    hint: Any
    value: Any


def options(settings: Any, path: tuple[str, ...] = (), flag: tuple[str, ...] = ()) -> Iterator[Option]:
    """Iterate over all options of a tree of dataclasses."""
    hints = get_type_hints(type(settings), include_extras=True)
    for field in dataclasses.fields(settings):
        value, marks = getattr(settings, field.name), getattr(hints[field.name], "__metadata__", ())
        field_path = path if _Inline in marks else (*path, field.name)
        field_flag = flag if _Inline in marks or _NoPrefix in marks else (*flag, field.name)
        if dataclasses.is_dataclass(value):
            yield from options(value, field_path, field_flag)
        else:
            flag_name = "--" + ".".join(field_flag).replace("_", "-")
            yield Option(".".join(field_path), flag_name, hints[field.name], value)


def flags(settings: Any) -> dict[str, str]:
    """Return the flag of every option, by its path."""
    return {option.path: option.flag for option in options(settings)}


def check(settings: Any, path: tuple[str, ...] = ()) -> None:
    """Raise if a number is outside the range of its option."""
    for option in options(settings, path):
        _check_range(option, option.path)


def differences(ours: Any, theirs: Any, path: tuple[str, ...] = ()) -> dict[str, tuple[Any, Any]]:
    """Return the options in which two settings of the same type differ, with both values."""
    pairs = zip(options(ours, path), options(theirs, path), strict=True)
    return {ours.path: (ours.value, theirs.value) for ours, theirs in pairs if ours.value != theirs.value}


def apply_defaults(settings: T, env_defaults: Any) -> T:
    """Replace the options marked `FromEnv` by the environment's own (`refil.types.EnvDefaults`) where they are not None."""
    hints = get_type_hints(type(settings), include_extras=True)
    marked = [name for name, hint in hints.items() if FromEnv in getattr(hint, "__metadata__", ())]
    chosen = {name: getattr(env_defaults, name) for name in marked}
    return dataclasses.replace(settings, **{name: value for name, value in chosen.items() if value is not None})  # type: ignore[type-var] (T is a dataclass)


def from_command_line(kind: type[T], arguments: Sequence[str], program: str, text: str | None, default: Any = None) -> T:
    """Parse options; those not given keep their defaults. `--help` shows the text and all options."""
    given = {} if default is None else {"default": default}
    settings = tyro.cli(kind, args=list(arguments), prog=program, description=text, **given)
    given_once = [each for each in options(settings) if tyro.conf.UseAppendAction not in getattr(each.hint, "__metadata__", ())]
    _check_repeated(arguments, {option.flag for option in given_once})
    for option in options(settings):
        _check_range(option, option.flag)
    return settings


def _check_repeated(arguments: Sequence[str], flags: set[str]) -> None:
    """Raise if an option is given more than once, also as `--x` and `--no-x`: only the last one would count."""
    found: dict[str, str] = {}
    for word in arguments:
        typed = word.partition("=")[0]
        *groups, last = typed.replace("_", "-").removeprefix("--").split(".")
        names = {"--" + ".".join([*groups, name]) for name in (last, last.removeprefix("no-"))} & flags
        if not typed.startswith("--") or not names:
            continue
        name = min(names, key=len)
        if (before := found.get(name)) is not None:
            raise RefilError(f"{typed} is given twice" if before == typed else f"{before} and {typed} are both given")
        found[name] = typed


def from_json(default: T, values: Any, path: tuple[str, ...] = ()) -> T:
    """Return the default with the values of a JSON object; names, types and ranges are checked."""
    where = ".".join(path) or "the config"
    if not isinstance(values, dict):
        raise RefilError(f"{where} should be a dictionary, not {values!r}")
    fields = {field.name: getattr(default, field.name) for field in dataclasses.fields(default)}  # type: ignore[arg-type] (T is a dataclass)
    for name in values:
        if name not in fields:
            raise RefilError(f"{where} has no option {name!r}; {list_choices(name, sorted(fields))}")
    hints = get_type_hints(type(default))
    parsed = {name: coerce(fields[name], value, (*path, name), hints[name]) for name, value in values.items()}
    settings = dataclasses.replace(default, **parsed)  # type: ignore[type-var] (T is a dataclass)
    check(settings, path)
    return settings


def coerce(default: Any, value: Any, path: tuple[str, ...], hint: Any) -> Any:
    """Convert a JSON value to the type of its option."""
    if dataclasses.is_dataclass(default):
        return from_json(default, value, path)
    is_optional = hint is Any or type(None) in get_args(hint)
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    if is_optional and default is None and value is not None and kinds in ([bool], [int], [float], [str]):
        default = kinds[0]()
    if is_optional and (default is None or value is None):
        return value
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return float(value)
    if isinstance(default, tuple) and isinstance(value, list | tuple):
        kind = get_args(hint)[0]
        first = get_args(kind)[0] if get_origin(kind) is Literal else kind()
        return tuple(coerce(first, item, path, kind) for item in value)
    if type(value) is not type(default):
        kind = "list" if isinstance(default, tuple) else type(default).__name__
        raise RefilError(f"{'.'.join(path)} should be of type {kind}, not {json.dumps(value, default=repr)}")
    if get_origin(hint) is Literal and value not in get_args(hint):
        raise RefilError(f"{'.'.join(path)} should be one of {', '.join(get_args(hint))}, not {value}")
    return value


def _check_range(option: Option, name: str) -> None:
    for allowed in _ranges(option.hint):
        for number in option.value if isinstance(option.value, tuple) else (option.value,):
            if number is not None and not math.isfinite(number):
                raise RefilError(f"{name} must be a finite number, not {number}")
            if number is not None and not allowed.low <= number <= allowed.high:
                raise RefilError(f"{name} must be {allowed}, not {number}")


def _ranges(hint: Any) -> list[Range]:
    own = [mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Range)]
    return own + [found for part in get_args(hint) if part is not hint for found in _ranges(part)]
