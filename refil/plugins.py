"""Plug-ins: parts that are found by the name of their file, inside a package or anywhere else. There is no registry.

A package that also accepts the path of a Python file defines `REQUIRED`, the names which that file must define.
It may define `KIND`, the noun for its plug-ins in errors. A plug-in that is a folder provides several names: it defines
`names()`, `summary(name)` and `serve(name)`, which returns the plug-in of that name or None. It may define `explain(name)`,
which returns what to do about a name that it does not provide, or None. `SUGGESTIONS` in a package holds the plug-ins to
suggest for other names.
"""

import ast
import importlib
import importlib.util
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

from refil import user_files
from refil.errors import RefilError, describe, list_choices
from refil.user_files import UserFile

EXAMPLES = Path(__file__).parent / "examples"


def names(package: str) -> list[str]:
    """Return the names of all plug-ins in alphabetical order; plug-ins that are single files are not imported."""
    files = [info.name for info in pkgutil.iter_modules([str(_path(package))]) if not info.ispkg]
    provided = [name for folder in _folders(package) for name in folder.names()]
    return sorted([name for name in files if not name.startswith("_")] + provided)


def load(package: str, name: str, sha256: str = "") -> Any:
    """Return the plug-in of a name, or the one in the Python file of a path, which is trusted from then on.

    With a hash, return the one in the file of that content, which this process has loaded before.
    """
    _check_name(package, name)
    needed = getattr(importlib.import_module(package), "REQUIRED", None)
    if needed is not None and name.endswith(".py"):
        return _check_defines(find_file(name, sha256), needed)
    for folder in _folders(package):
        if (served := folder.serve(name)) is not None:
            return served
    if name not in names(package):
        raise RefilError(unknown_name(package, name))
    return importlib.import_module(f"{package}.{name}")


def as_name(name: str | Path) -> str:
    """Return the path of a plug-in's file as a string, and anything else as it is."""
    return str(name) if isinstance(name, Path) else name


def _check_name(package: str, name: object) -> None:
    if not isinstance(name, str):
        what = f"the name of the {_kind(package)} must be a string, not {describe(name)}"
        raise RefilError(f"{what}; available: {', '.join(names(package))}{_or_path(package)}")


def unknown_name(package: str, name: str) -> str:
    """Return the error message for a name that no plug-in has: the closest name and all choices."""
    module, kind = importlib.import_module(package), _kind(package)
    for folder in _folders(package):
        if explained := getattr(folder, "explain", lambda _: None)(name):
            return f"unknown {kind} {name!r}: {explained}"
    if (example := EXAMPLES / f"{name}.py").is_file() and hasattr(module, "REQUIRED"):
        return f"unknown {kind} {name!r}; it is an example, whose name is its path: {example}"
    choices = list_choices(name, names(package), getattr(module, "SUGGESTIONS", {}).get(name.lower()))
    return f"unknown {kind} {name!r}; {choices}{_or_path(package)}"


def identify(package: str, name: str) -> tuple[str, str]:
    """Return a plug-in's name and no hash, or the name and the hash of the file of a path, which is loaded."""
    _check_name(package, name)
    if not name.endswith(".py"):
        return name, ""
    return Path(name).name, user_files.load(Path(name)).sha256


def find_file(name: str, sha256: str) -> UserFile:
    """Return the user's file of a path, or the loaded one with a hash."""
    if not sha256:
        return user_files.load(Path(name))
    if (file := user_files.find(sha256)) is None:
        raise RefilError(f"the code of {name} (SHA-256 {sha256}) is not here; it is in the folder of the run that names it")
    return file


def summary(package: str, name: str) -> str:
    """Return a one-line description: the first line of the docstring, read without importing, or what its folder says."""
    for folder in _folders(package):
        if name in folder.names():
            return folder.summary(name)
    return (ast.get_docstring(ast.parse((_path(package) / f"{name}.py").read_text(encoding="utf-8"))) or "").partition("\n")[0]


def _kind(package: str) -> str:
    return getattr(importlib.import_module(package), "KIND", package.rpartition(".")[2].removesuffix("s"))


def _or_path(package: str) -> str:
    return " (or the path of a .py file)" if hasattr(importlib.import_module(package), "REQUIRED") else ""


def _folders(package: str) -> list[ModuleType]:
    found = [info.name for info in pkgutil.iter_modules([str(_path(package))]) if info.ispkg]
    return [importlib.import_module(f"{package}.{name}") for name in found]


def _path(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


def _check_defines(file: UserFile, needed: tuple[str, ...]) -> ModuleType:
    for name in needed:
        if not hasattr(file.module, name):
            raise RefilError(f"{file.path} does not define {name}; it must define {' and '.join(needed)}")
    return file.module
