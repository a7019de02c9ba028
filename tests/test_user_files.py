"""Python files of users: trusted when the user names them, and loaded once."""

import hashlib
import importlib.util
import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from refil import user_files
from refil.errors import RefilError


@pytest.fixture(autouse=True)
def own_list(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv(user_files.TRUSTED, raising=False)
    monkeypatch.setattr(user_files, "_loaded", {})


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_that_the_user_names_is_trusted_from_then_on(tmp_path):
    mine = write(tmp_path / "mine.py", "x = 1")
    copied = write(tmp_path / "run" / "code.py", "x = 1")
    assert not user_files.is_trusted(sha256(mine))
    user_files.load(mine)
    assert user_files.is_trusted(sha256(mine))
    assert (tmp_path / "state" / "refil" / "trusted").read_text() == f"{sha256(mine)} '{mine}'\n"
    assert user_files.load_stored(copied, sha256(mine), trust=False).module.x == 1


def test_the_same_content_is_one_module_and_other_content_another(tmp_path):
    first = user_files.load(write(tmp_path / "mine.py", "x = 1"))
    assert user_files.load(write(tmp_path / "copy.py", "x = 1")).module is first.module
    other = user_files.load(write(tmp_path / "mine.py", "x = 2"))
    assert (first.module.x, other.module.x) == (1, 2)
    assert sys.modules[first.module.__name__] is first.module
    assert sys.modules[other.module.__name__] is other.module
    assert first.source == b"x = 1"
    assert user_files.find(first.sha256) is first


def test_unknown_code_is_refused_before_it_runs_with_its_name_and_hash(tmp_path):
    code = write(tmp_path / "code.py", f"open({str(tmp_path / 'marker')!r}, 'w')")
    with pytest.raises(
        RefilError, match=rf"code.py is code that you have not run before \(SHA-256 {sha256(code)}\).*pass trust=True"
    ):
        user_files.load_stored(code, sha256(code), trust=False)
    with pytest.raises(RefilError, match=r"code.py has changed: its SHA-256 is .*, but the config has 00"):
        user_files.load_stored(code, 64 * "0", trust=True)
    assert not (tmp_path / "marker").exists()
    user_files.load_stored(code, sha256(code), trust=True)
    assert (tmp_path / "marker").exists()
    assert user_files.is_trusted(sha256(code))


def test_a_forged_bytecode_file_next_to_trusted_code_does_not_run(tmp_path):
    code = write(tmp_path / "code.py", "x = 1")
    evil = write(tmp_path / "evil.py", "x = 2")
    os.utime(evil, ns=(code.stat().st_atime_ns, code.stat().st_mtime_ns))
    py_compile.compile(str(evil), importlib.util.cache_from_source(str(code)), doraise=True)
    assert user_files.load(code).module.x == 1


@pytest.mark.parametrize("state", ["file", "read only"])
def test_without_a_place_to_store_it_trust_holds_for_the_process_and_its_children(tmp_path, monkeypatch, state):
    blocked = write(tmp_path / "blocked", "a file where the folder should be")
    monkeypatch.setenv("XDG_STATE_HOME", str(blocked) if state == "file" else "/proc/no/such/folder")
    mine = write(tmp_path / "mine.py", "x = 1")
    user_files.load(mine)
    assert user_files.is_trusted(sha256(mine))
    code = f"from refil import user_files; print(user_files.is_trusted({sha256(mine)!r}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"


def test_without_a_home_folder_nothing_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # ignored, as the standard says
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert user_files.load(write(tmp_path / "mine.py", "x = 1")).module.x == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (", r"mine.py is not a Python file: line 1: '\(' was never closed"),
        ("x = '\0'", r"mine.py is not a Python file: "),
        ("import no_such_sibling", r"mine.py imports no_such_sibling, which is not installed; a plug-in is a single file"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_refused(tmp_path, text, message):
    before = set(sys.modules)
    with pytest.raises(RefilError, match=message):
        user_files.load(write(tmp_path / "mine.py", text))
    assert not [name for name in set(sys.modules) - before if name.startswith("refil_user")]


def test_errors_in_the_file_name_its_line_and_keep_their_cause(tmp_path):
    with pytest.raises(RefilError, match=r"importing .*mine.py failed at .*mine.py:2: ZeroDivisionError") as caught:
        user_files.load(write(tmp_path / "mine.py", "x = 1\n1 / 0"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
