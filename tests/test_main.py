"""The `refil` command."""

import os
import subprocess
import sys

import pytest

from refil.__main__ import main

REFIL = [sys.executable, "-m", "refil"]


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


def test_a_warning_is_one_line():
    code = (
        "import refil.__main__ as m, warnings; m._run = lambda _: warnings.warn('first\\n  second; pass trust=True'); m.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert done.stderr == "refil: warning: first second; pass --trust\n"
    assert done.returncode == 0


def test_the_list_of_commands_needs_no_jax():
    code = "import sys; sys.argv = ['refil', '--help']; from refil.__main__ import main; main(); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert done.stdout.endswith("False\n")
    assert "train" in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["list", "--help"]], ids=" ".join)
def test_a_full_standard_output_is_reported_in_a_sentence(arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*REFIL, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.stderr == "refil: cannot write the output: No space left on device\n"
    assert done.returncode == 1


def test_a_reader_that_closes_the_pipe_ends_the_command_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*REFIL, "--help"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_do_not_matter(streams, tmp_path):
    done = subprocess.run(["sh", "-c", f'"$@" --version {streams}', "sh", *REFIL], capture_output=True, text=True)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_an_error_nobody_reads_keeps_its_exit_code():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*REFIL, "tran"], stdout=subprocess.PIPE, stderr=writer)
    os.close(writer)
    assert done.returncode == 2


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"]], ids=" ".join)
def test_an_encoding_without_unicode_is_enough(arguments):
    plain = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([*REFIL, *arguments], capture_output=True, env=os.environ | plain)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "--steps" in done.stdout.decode("ascii") or "commands:" in done.stdout.decode("ascii")


def test_windows_is_refused_in_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "win32")
    assert run_main(monkeypatch, "--version") == 2
    assert "refil: Windows is not supported" in capsys.readouterr().err


def test_without_file_locks_a_run_is_refused_in_a_sentence(monkeypatch, tmp_path):
    from refil.errors import RefilError
    from refil.storage import run_dir

    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(RefilError, match="Windows is not supported"), run_dir.locked(tmp_path / "run"):
        pass
    assert not (tmp_path / "run").exists()
