"""The `refil` command."""

import os
import subprocess
import sys

import pytest

from refil.__main__ import main


def run_main(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["refil", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code


def test_an_unknown_command_is_refused_with_the_closest_one(monkeypatch, capsys):
    assert run_main(monkeypatch, "tran") == 2
    assert "refil: unknown command 'tran'; did you mean 'train'? Available: " in capsys.readouterr().err


def test_the_version_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["refil", "--version"])
    main()
    assert capsys.readouterr().out.startswith("refil 0.")


def test_the_list_of_commands_needs_no_jax():
    code = "import sys; sys.argv = ['refil', '--help']; from refil.__main__ import main; main(); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert done.stdout.endswith("False\n")
    assert "train" in done.stdout
