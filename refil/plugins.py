"""Plug-ins: parts that are found by the name of their file, inside a package or anywhere else. There is no registry.

A package that also accepts the path of a Python file defines `NEEDED`, the names which that file must define.
It may define `KIND`, the noun for its plug-ins in errors. A plug-in that is a folder provides several names: it defines
`names()`, `summary(name)` and `serve(name)`, which returns the plug-in of that name or None.
"""

import ast
import difflib
import importlib
import importlib.util
import pkgutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from refil.errors import RefilError, user_code


def names(package: str) -> list[str]:
    """Return the names of all plug-ins in alphabetical order; plug-ins that are single files are not imported."""
    files = [info.name for info in pkgutil.iter_modules([str(_path(package))]) if not info.ispkg]
    provided = [name for folder in _folders(package) for name in folder.names()]
    return sorted([name for name in files if not name.startswith("_")] + provided)


def load(package: str, name: str) -> Any:
    """Return the plug-in of a name, or the one in the Python file of a path."""
    needed = getattr(importlib.import_module(package), "NEEDED", None)
    if needed is not None and name.endswith(".py"):
        return _load_file(Path(name), needed)
    for folder in _folders(package):
        if (served := folder.serve(name)) is not None:
            return served
    if name not in names(package):
        raise RefilError(unknown_name(package, name) + (" (or the path of a .py file)" if needed is not None else ""))
    return importlib.import_module(f"{package}.{name}")


def unknown_name(package: str, name: str) -> str:
    """Return the error message for a name that no plug-in has: the closest name and all choices."""
    kind = getattr(importlib.import_module(package), "KIND", package.rpartition(".")[2].removesuffix("s"))
    close = difflib.get_close_matches(name, names(package), n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"unknown {kind} {name!r}; {hint}Available: {', '.join(names(package))}"


def absolute_name(name: str) -> str:
    """Return a name that holds in any working directory: paths of files become absolute."""
    return str(Path(name).resolve()) if name.endswith(".py") else name


def summary(package: str, name: str) -> str:
    """Return a one-line description: the first line of the docstring, read without importing, or what its folder says."""
    for folder in _folders(package):
        if name in folder.names():
            return folder.summary(name)
    return (ast.get_docstring(ast.parse((_path(package) / f"{name}.py").read_text(encoding="utf-8"))) or "").partition("\n")[0]


def _folders(package: str) -> list[ModuleType]:
    found = [info.name for info in pkgutil.iter_modules([str(_path(package))]) if info.ispkg]
    return [importlib.import_module(f"{package}.{name}") for name in found]


def _path(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


def _load_file(path: Path, needed: tuple[str, ...]) -> ModuleType:
    if not path.is_file():
        raise RefilError(f"there is no file {path}")
    module_name = f"refil_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look up the module that defines them
    with user_code(f"importing {path}"):
        spec.loader.exec_module(module)
    for name in needed:
        if not hasattr(module, name):
            raise RefilError(f"{path} does not define {name}; it must define {' and '.join(needed)}")
    return module
