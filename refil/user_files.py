"""Python files of users: each content is loaded once, and only if the user trusts it.

A file whose path the user gives is trusted from then on. Code that comes with a run, which may be somebody else's, is run only
if its content is trusted already or the user says so. Trusted hashes (SHA-256) are listed in the user's state folder.
"""

import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from refil.errors import RefilError, user_code

TRUSTED = "REFIL_TRUSTED"  # environment variable for hashes that cannot be stored; subprocesses inherit it


@dataclass(frozen=True)
class UserFile:
    """A Python file that was loaded: its source is what ran, even if the file has changed since."""

    path: Path
    sha256: str
    source: bytes
    module: ModuleType


_loaded: dict[str, UserFile] = {}


def load(path: Path) -> UserFile:
    """Load a file whose path the user gave, and trust it from now on."""
    source = _read(path.resolve())
    return _load(path.resolve(), source, trust=True)


def load_stored(path: Path, sha256: str | None, trust: bool) -> UserFile:
    """Load a file that a run names; raise before any of it runs if it has another hash or is not trusted."""
    source = _read(path)
    found = hashlib.sha256(source).hexdigest()
    if sha256 is not None and sha256 != found:
        raise RefilError(f"{path} has changed: its SHA-256 is {found}, but the config has {sha256}")
    return _load(path, source, trust)


def find(sha256: str) -> UserFile | None:
    """Return the file with this hash if this process has loaded it."""
    return _loaded.get(sha256)


def is_trusted(sha256: str) -> bool:
    """Return whether the user trusts code with this hash."""
    try:
        lines = _list_path().read_text(errors="replace").splitlines()
    except (OSError, RuntimeError):  # there is no list, or no home folder
        lines = []
    return sha256 in {line.partition(" ")[0] for line in lines} | set(os.environ.get(TRUSTED, "").split())


def add_trusted(sha256: str, path: Path) -> None:
    """Trust code with this hash: for good, or in this process and its children where nothing can be stored."""
    if is_trusted(sha256):
        return
    try:
        file = _list_path()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "ab") as stream:
            stream.write(f"{sha256} {str(path)!a}\n".encode())
    except (OSError, RuntimeError):
        os.environ[TRUSTED] = f"{os.environ.get(TRUSTED, '')} {sha256}".strip()


def trusting(hashes: Iterable[str]) -> dict[str, str]:
    """Return the environment variable by which another process, maybe on another machine, trusts code with these hashes."""
    return {TRUSTED: " ".join([*os.environ.get(TRUSTED, "").split(), *filter(None, hashes)])}


def _list_path() -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "refil" / "trusted"


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise RefilError(f"there is no file {path}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise RefilError(f"cannot read {path}: {error.strerror or error}") from error


def _load(path: Path, source: bytes, trust: bool) -> UserFile:
    sha256 = hashlib.sha256(source).hexdigest()
    if trust:
        add_trusted(sha256, path)
    elif not is_trusted(sha256):
        raise RefilError(
            f"{path} is code that you have not run before (SHA-256 {sha256}); read it, and if you trust it pass trust=True"
        )
    if sha256 not in _loaded:
        _loaded[sha256] = UserFile(path, sha256, source, _run(path, source, sha256))
    return _loaded[sha256]


def _run(path: Path, source: bytes, sha256: str) -> ModuleType:
    # The source that was checked is compiled here: an import would read the file again, or a stale or forged .pyc.
    try:
        program = compile(source, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        where = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) and error.lineno else str(error)
        raise RefilError(f"{path} is not a Python file: {where}") from error
    stem = re.sub(r"\W", "_", path.stem)
    module = ModuleType(f"refil_user_{stem}_{sha256[:16]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look up the module that defines them
    try:
        with user_code(f"importing {path}"), _explained_imports(path):
            exec(program, module.__dict__)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module


@contextmanager
def _explained_imports(path: Path) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        advice = "a plug-in is a single file, and code that several share belongs in an installed package"
        raise RefilError(f"{path} imports {error.name}, which is not installed; {advice}") from error
