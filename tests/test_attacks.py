"""A sample of the attacks in benchmarks/."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ATTACK = load("attack_commands")


@pytest.fixture(scope="module")
def folder():
    with ATTACK.working_folder() as folder:
        yield folder


def test_there_are_enough_attacks_on_every_command():
    from refil import plugins

    assert len(ATTACK.commands()) == len(set(ATTACK.commands())) >= 60
    assert {line.split()[0].replace("-", "_") for line in ATTACK.commands()} >= set(plugins.names("refil.cli"))


@pytest.mark.parametrize("command", ATTACK.commands()[::5])
def test_a_bad_command_line_is_refused_in_a_sentence_and_leaves_nothing_behind(folder, command):
    assert ATTACK.attack(command, folder).faults == ()


def test_the_attack_notices_commands_that_are_not_refused(folder):
    assert ATTACK.attack("list", folder).faults[0] == "exit code 0"


def test_broken_extensions_are_refused_in_one_sentence():
    script = BENCHMARKS / "attack_extensions.py"
    env = os.environ | {"PYTHONPATH": str(BENCHMARKS.parent)}
    result = subprocess.run(
        [sys.executable, str(script), "--every", "8"],
        cwd=BENCHMARKS.parent,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "9 of 9 mistakes were named in one sentence" in result.stdout
