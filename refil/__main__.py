"""The `refil` command: finds the command asked for and passes it the remaining arguments."""

import contextlib
import io
import os
import sys
from typing import TextIO

COMMANDS = "refil.cli"
NO_WINDOWS = "refil does not support Windows, which lacks its file locks and signals; use the Windows Subsystem for Linux"


def usage() -> str:
    """Return the list of all commands."""
    from refil import plugins

    names = plugins.names(COMMANDS)
    lines = [f"  {name:<{max(map(len, names))}}  {plugins.summary(COMMANDS, name)}" for name in names]
    return "\n".join(
        [
            "usage: refil COMMAND ...",
            "",
            "Cooperative multi-agent reinforcement learning with teams that change from episode to episode.",
            "",
            "commands:",
            *lines,
            "",
            "'refil COMMAND --help' shows all options of a command.",
        ]
    )


def main() -> None:
    """Run one command; errors that the user can fix are one line and exit code 2."""
    _prepare_streams()
    if sys.platform == "win32":
        _complain(NO_WINDOWS)
        sys.exit(2)
    from refil.cli import _signals  # first, so that Ctrl-C gives no traceback while the rest is imported

    with _signals.watched(lambda number: _signals.stop()):
        code = _exit_code(sys.argv[1:])
        code = _flush() or code
    if code:
        sys.exit(code)


def _exit_code(arguments: list[str]) -> int | str | None:
    from refil.errors import RefilError

    try:
        _run(arguments)
    except RefilError as error:
        _complain(str(error))
        return 2
    except KeyboardInterrupt:
        _complain("stopped")
        return 130
    except SystemExit as stop:
        return stop.code
    except OSError:
        if _flush_problem() is None:
            raise
    return 0


def _run(arguments: list[str]) -> None:
    from refil import plugins
    from refil.errors import RefilError

    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return
    command, *rest = arguments
    if command == "--version":
        from refil import __version__

        print(f"refil {__version__}")
        return
    if command not in plugins.names(COMMANDS):
        raise RefilError(plugins.unknown_name(COMMANDS, command))
    from refil.training import flags

    flags.disable_fma()  # before a command starts XLA
    plugins.load(COMMANDS, command).main(rest)


def _prepare_streams() -> None:
    """Make standard streams usable: closed ones discard what is written, and characters they lack are escaped."""
    with contextlib.suppress(OSError):
        while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:  # otherwise a file of the run could get the number of a stream
            pass
        os.close(opened)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"refil: {text}", file=sys.stderr, flush=True)


def _flush_problem() -> OSError | None:
    try:
        sys.stdout.flush()
    except OSError as error:
        return error
    return None


def _flush() -> int:
    """Flush the standard streams; return the exit code if output is lost, and let Python's own last flush succeed."""
    code = 0
    if (problem := _flush_problem()) is not None:
        code = 141 if isinstance(problem, BrokenPipeError) else 1  # 141: the reader, such as head, has closed the pipe
        if code == 1:
            _complain(f"cannot write to standard output: {problem.strerror}")
        _discard(sys.stdout)
    try:
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)
    return code


def _discard(stream: TextIO) -> None:
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()
