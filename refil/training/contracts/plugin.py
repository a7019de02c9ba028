"""Checks of the file of a plug-in: `Config` has defaults, and `build` the right parameters."""

import dataclasses
import inspect
from typing import Any

from refil.errors import RefilError, user_code
from refil.types import EnvDefaults

RESERVED = ("name", "sha256")  # next to the options in config.json


def is_user_file(name: str) -> bool:
    """Return whether a plug-in is the Python file of a user."""
    return name.endswith(".py")


def default_options(module: Any, name: str, given: tuple[str, ...]) -> Any:
    """Return the default options of a plug-in; `given` are the names of what its `build` is called with."""
    if not (isinstance(module.Config, type) and dataclasses.is_dataclass(module.Config)):
        raise RefilError(f"{name}: Config must be a dataclass, such as @dataclass(frozen=True) class Config")
    required = [
        field.name
        for field in dataclasses.fields(module.Config)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if required:
        raise RefilError(f"{name}: every option in Config needs a default; {', '.join(required)} has none")
    if reserved := [field.name for field in dataclasses.fields(module.Config) if field.name in RESERVED]:
        raise RefilError(
            f"{name}: an option in Config cannot be called {reserved[0]}, which config.json keeps for refil itself"
        )
    defaults = getattr(module, "DEFAULTS", None)
    if defaults is not None and not isinstance(defaults, EnvDefaults):
        raise RefilError(f"{name}: DEFAULTS must be a refil.types.EnvDefaults, not {kind(defaults)}")
    check_parameters(name, "build()", module.build, given)
    with user_code(f"{name}: Config()"):
        return module.Config()


def build(module: Any, name: str, *given: Any) -> Any:
    """Call the `build` of a plug-in."""
    with user_code(f"{name}: build()"):
        return module.build(*given)


def check_parameters(name: str, what: str, function: Any, given: tuple[str, ...]) -> None:
    """Raise if a function cannot be called with this number of arguments."""
    if not callable(function):
        raise RefilError(f"{name}: {what} is {kind(function)}, not a function")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built-in functions have none
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        own = ", ".join(map(str, signature.parameters))
        raise RefilError(f"{name}: {what} is called with ({', '.join(given)}), but its parameters are ({own})") from error


def kind(value: Any) -> str:
    """Return the type of a value in words."""
    if value is None:
        return "None"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array of shape {value.shape}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{'an' if type(value).__name__[0] in 'aeiouAEIOU' else 'a'} {type(value).__name__}"
