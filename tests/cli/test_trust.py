"""Somebody else's run does not run code, until the user says so."""

import json
import shutil

import jax
import pytest

import refil as library
from refil import user_files
from refil.errors import RefilError
from refil.storage import run_dir
from refil.training import config as configs

ENV = """
from pathlib import Path
from refil.envs.group_matching import Config, build, DEFAULTS
Path({!r}).touch()
"""


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "marker"


@pytest.fixture
def foreign(tmp_path, marker, monkeypatch):
    """A run that somebody else made with an environment that writes a file when it is loaded."""
    source = tmp_path / "their_env.py"
    source.write_text(ENV.format(str(marker)))
    game, network = {"agents": 3, "cells": 3, "horizon": 6}, {"size": 8, "heads": 2, "mixing": 4}
    options = {"steps": 50, "eval_every": 50, "eval_episodes": 2, "buffer": 20, "batch": 5, "envs": 2, "pack": ()}
    config = configs.default(str(source), "refil").with_options(game, network, **options)
    run = run_dir.create(tmp_path / "theirs", config)
    run.save_models(jax.vmap(config.build().method.init)(jax.random.split(jax.random.key(0), 1)), [0], config)
    line = {"seed": 0, "env_steps": 50, "win_rate": 0.5, "seconds": 1.0, "loss": None}
    (run.path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    source.unlink()
    monkeypatch.setattr(user_files, "_loaded", {})  # another process, of another user
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    marker.unlink()
    return run.path


def as_version_0_2(path, tmp_path):
    """Let the config name the file by its path, without a hash."""
    values = json.loads((path / "config.json").read_text())
    del values["env"]["sha256"]
    values["env"]["name"] = str(path / "code" / "env" / "their_env.py")
    (path / "config.json").write_text(json.dumps(values))


@pytest.mark.parametrize("version", ["now", "0.2.0"])
def test_nothing_runs_the_code_of_a_run_unasked(refil, foreign, marker, tmp_path, version):
    if version == "0.2.0":
        as_version_0_2(foreign, tmp_path)
    moved = shutil.move(foreign, tmp_path / "moved") if version == "now" else foreign
    commands = (
        ["evaluate", str(moved)],
        ["evaluate", str(moved), "--by-task"],
        ["watch", str(moved), "--html", str(tmp_path / "page.html")],
        ["behavior", str(moved)],
        ["train", "--resume", str(moved)],
        ["train", "--config", f"{moved}/config.json", "--out", str(tmp_path / "new")],
        ["bench", "--config", f"{moved}/config.json"],
    )
    for command in commands:
        _, errors, code = refil(*command)
        assert code == 2, command
        assert "their_env.py is code that you have not run before (SHA-256 " in errors
        assert "pass --trust" in errors
    with pytest.raises(RefilError, match=r"not run before.*trust=True"):
        library.load(moved)
    with pytest.raises(RefilError, match=r"cannot resume with env\.name group_matching instead of their_env\.py"):
        library.train("group_matching", out=moved, resume=True)
    assert refil("plot", str(moved), "--out", str(tmp_path / "curves.png"))[2] == 0
    assert not marker.exists()
    assert not (tmp_path / "new").exists()


def test_trusted_code_runs_and_stays_trusted(refil, foreign, marker):
    assert refil("evaluate", str(foreign), "--episodes", "2", "--trust")[2] == 0
    assert marker.exists()
    assert library.load(foreign).env.spec.agents == 3  # without trust=True, now that the hash is known


def test_a_config_without_a_hash_gets_one_and_a_copy_of_the_code(refil, foreign, tmp_path):
    as_version_0_2(foreign, tmp_path)
    config = run_dir.open_run(foreign, trust=True).config
    copied = run_dir.create(tmp_path / "new", config)
    assert (copied.path / "code" / "env" / "their_env.py").read_bytes() == (foreign / "code/env/their_env.py").read_bytes()
    assert copied.config == config
    assert library.load(foreign).seed == 0  # its model was stored with a config of either kind


def test_a_changed_copy_is_refused_even_with_trust(refil, foreign, marker):
    with (foreign / "code" / "env" / "their_env.py").open("a") as file:
        file.write("# one more line\n")
    _, errors, code = refil("evaluate", str(foreign), "--trust")
    assert code == 2
    assert "their_env.py has changed: its SHA-256 is" in errors
    assert not marker.exists()


def test_a_run_with_a_users_file_can_be_moved_and_resumed(refil, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_env.py").write_text(ENV.format(str(tmp_path / "mine")))
    tiny = [
        *("--env.agents", "3", "--env.cells", "3", "--env.horizon", "6", "--method.size", "8", "--method.heads", "2"),
        *("--method.mixing", "4", "--batch", "5", "--pack", "--envs", "2", "--buffer", "20", "--eval-episodes", "4"),
    ]
    output, errors, code = refil("train", "my_env.py", *tiny, "--steps", "50", "--eval-every", "50", "--out", "run")
    assert code == 0, errors
    assert "refil train run/code/env/my_env.py --method qmix_attention" in output
    (tmp_path / "my_env.py").unlink()
    (tmp_path / "run").rename(tmp_path / "moved")
    output, errors, code = refil("train", "--resume", "moved", "--steps", "70")
    assert code == 0, errors
    assert refil("evaluate", "moved", "--episodes", "2")[2] == 0
