"""Stored configs as plain values: the names of environment and method, and the users' code that they refer to.

A run keeps the files of users that its config names, as in code/env/my_env.py. No function but `load_code` runs any of it.
"""

import json
from pathlib import Path
from typing import Any

from refil import settings, user_files
from refil.errors import RefilError

CODE = "code"  # folder of a run
KINDS = ("env", "method")
# Options that a config of version 2 may lack. A new option of refil itself belongs here, with a default that changes nothing,
# so that configs of earlier versions can still be read; a test fails where one is forgotten.
MAY_BE_MISSING = (
    "algorithm.learnability",
    "env.draw_seed",
    "env.draws",
    "env.sha256",
    "env.tags",
    "env.tasks",
    "env.variation",
    "env.vary",
    "method.own_embedding",
    "method.sha256",
    "method.shared_targets",
    "output.replay",
    "output.stop_after",
    "train.kernels",
)
# Options of methods among these for which an environment may choose another default: what they are where they are missing.
METHOD_BEFORE = {"own_embedding": False}
Names = dict[str, tuple[str, str]]  # name and SHA-256 of the environment and of the method; built-in ones have no hash


def code_path(kind: str, name: str) -> str:
    """Return where a run keeps the code of its environment ("env") or method ("method"), relative to its folder."""
    return f"{CODE}/{kind}/{name}"


def parse(text: str, source: str) -> dict[str, Any]:
    """Return the values of a stored config; environment and method have a `name` and a `sha256`, which may be empty."""
    try:
        values = json.loads(text)
        for kind in KINDS:
            values[kind] = dict(values[kind])
            values[kind] |= {"name": str(values[kind]["name"]), "sha256": str(values[kind].get("sha256", ""))}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RefilError(f"{source} is not a config of refil: {error}") from error
    return values


def seeds(values: dict[str, Any], source: str) -> range:
    """Return the seeds of a run from its stored config."""
    section = values.get("train", values)  # version 0.1 had no sections
    try:
        first, count = section["seed"], section["seeds"]
    except (KeyError, TypeError) as error:
        raise RefilError(f"{source} is not a config of refil: {error}") from error
    if not all(type(number) is int and number >= 0 for number in (first, count)):
        raise RefilError(f"{source} is not a config of refil: train.seed is {first!r:.40}, train.seeds {count!r:.40}")
    return range(first, first + count)


def load_code(values: dict[str, Any], folder: Path | None, trust: bool) -> dict[str, Any]:
    """Load the code that a stored config names from the folder of its run, and return the values with names and hashes.

    Raise before any of it runs if the user does not trust it. Without a folder, this process must have loaded it before.
    """
    loaded = dict(values)
    for kind in KINDS:
        name, sha256 = values[kind]["name"], values[kind]["sha256"]
        if name.endswith(".py") and (folder is not None or not sha256):
            # Version 0.2.0 stored the path of the file, and no hash.
            path = (folder or Path.cwd()) / (code_path(kind, _file_name(name)) if sha256 else name)
            file = user_files.load_stored(path, sha256 or None, trust)
            loaded[kind] = values[kind] | {"name": path.name, "sha256": file.sha256}
    return loaded


def identity(name: str, sha256: str) -> str:
    """Return a readable name, which for a user's file includes the beginning of its hash."""
    return f"{name} (SHA-256 {sha256[:12]})" if sha256 else name


def mismatched_names(values: dict[str, Any], names: Names) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the stored and the given identity of environment and method where they differ, by path of the option.

    The second part has the hashes of users' files that are missing in the stored config; version 0.2.0 stored none.
    """
    found, hashes = {}, {}
    for kind, given in names.items():
        stored = _file_name(values[kind]["name"]), values[kind]["sha256"]
        has_no_hash = stored[0].endswith(".py") and not stored[1]
        if stored[0] != given[0] or (stored[1] != given[1] and not has_no_hash):
            found[f"{kind}.name"] = (identity(*stored), identity(*given))
        elif stored[1] != given[1]:
            hashes[f"{kind}.sha256"] = (stored[1], given[1])
    return found, hashes


def check_complete(config: Any, values: dict[str, Any]) -> Any:
    """Return the config that was read from stored values; raise if these lack some of its options, except in version 0.1."""
    if values.get("version", 1) == 1:
        return config
    paths = [option.path for option in settings.options(config) if option.path not in MAY_BE_MISSING]
    if missing := [path for path in paths if not _has(values, path)]:
        raise RefilError(f"the config lacks {', '.join(missing)}; missing options are not replaced by defaults")
    return config


def differences(saved: str, requested: str) -> dict[str, tuple[Any, Any]]:
    """Return the options that differ in two stored configs, among those that both have, by path with both values."""
    ours, theirs = _flat_pair(saved, requested)
    pairs = {path: (ours[path], theirs[path]) for path in ours if path in theirs}
    return {path: pair for path, pair in pairs.items() if _without_folder(pair[0]) != _without_folder(pair[1])}


def lacking(saved: str, requested: str) -> list[str]:
    """Return the options that the second of two stored configs lacks, except those that older versions do not have."""
    ours, theirs = _flat_pair(saved, requested)
    return [path for path in ours if path not in theirs and path not in MAY_BE_MISSING]


def fill_in_method(values: dict[str, Any], options: Any) -> dict[str, Any]:
    """Return the stored options of a method, with those that an earlier version did not have."""
    return {name: value for name, value in METHOD_BEFORE.items() if hasattr(options, name)} | values


def _flat_pair(saved: str, requested: str) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        return dict(_flatten(json.loads(saved))), dict(_flatten(json.loads(requested)))
    except (ValueError, AttributeError, RecursionError) as error:
        raise RefilError(f"a stored config cannot be compared: {error}") from error


def _file_name(name: str) -> str:
    return Path(name).name if name.endswith(".py") else name


def _has(values: Any, path: str) -> bool:
    for name in path.split("."):
        if not isinstance(values, dict) or name not in values:
            return False
        values = values[name]
    return True


def _flatten(values: Any, path: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    found = []
    for name, value in values.items():
        own = (*path, name)
        found += _flatten(value, own) if isinstance(value, dict) else [(".".join(own), value)]
    return found


def _without_folder(value: Any) -> Any:  # a user's file may have moved
    return _file_name(value) if isinstance(value, str) else value
