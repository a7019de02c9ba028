"""Finds parts by the name of their file: no registry, no list. A path to a Python file of one's own works as well.

Packages that take such a path have `NEEDED`, the names which that file must have. A folder with several parts in it has
`names()`, `summary(name)`, and `serve(name)` for what each of them is.
"""

import ast
import importlib
import importlib.util
import pkgutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from refil.errors import RefilError


def names(package: str) -> list[str]:
    """The plug-ins of a package, in alphabetical order; single files are not imported for that."""
    files = [info.name for info in pkgutil.iter_modules([str(folder(package))]) if not info.ispkg]
    return sorted([name for name in files if not name.startswith("_")] + [name for f in folders(package) for name in f.names()])


def folders(package: str) -> list[ModuleType]:
    """The plug-ins that are folders, each of which serves several names."""
    found = [info.name for info in pkgutil.iter_modules([str(folder(package))]) if info.ispkg]
    return [importlib.import_module(f"{package}.{name}") for name in found]


def load(package: str, name: str) -> Any:
    """The plug-in of that name, or the one in the Python file of that path."""
    needed = getattr(importlib.import_module(package), "NEEDED", None)
    if needed is not None and name.endswith(".py"):
        return load_file(Path(name), needed)
    for module in folders(package):
        if (served := module.serve(name)) is not None:
            return served
    if name not in names(package):
        advice = " (or give the path of a .py file)" if needed is not None else ""
        raise RefilError(f"{package} has no {name!r}; it has {', '.join(names(package))}{advice}")
    return importlib.import_module(f"{package}.{name}")


def located(name: str) -> str:
    """The same name, for use from any folder."""
    return str(Path(name).resolve()) if name.endswith(".py") else name


def load_file(path: Path, needed: tuple[str, ...]) -> ModuleType:
    """A plug-in outside the package; an error in it is the user's to see, so it passes through."""
    if not path.is_file():
        raise RefilError(f"there is no file {path}")
    module_name = f"refil_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    for name in needed:
        if not hasattr(module, name):
            raise RefilError(f"{path} has no {name}; it should have {' and '.join(needed)}")
    return module


def summary(package: str, name: str) -> str:
    """A plug-in in one line: the first of its docstring, read without running it, or what its folder says of it."""
    for module in folders(package):
        if name in module.names():
            return module.summary(name)
    return (ast.get_docstring(ast.parse((folder(package) / f"{name}.py").read_text())) or "").partition("\n")[0]


def folder(package: str) -> Path:
    """Where a package's files lie."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))
