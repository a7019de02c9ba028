"""The `refil` command: finds the command asked for and passes it the remaining arguments."""

import contextlib
import errno
import gc
import io
import os
import sys
import warnings
from typing import Any

ExitCode = int | str | None
COMMANDS = "refil.cli"
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EPIPE, errno.EBADF)  # what a full or closed stream raises
GC_THRESHOLD = 10_000  # new objects until garbage is collected; Python's 700 cost a tenth of the time to the first update
NO_WINDOWS = "Windows is not supported, since it lacks the file locks and signals that refil needs; use its Subsystem for Linux"


def usage() -> str:
    """Return the list of all commands."""
    from refil import plugins

    names = _commands()
    lines = [f"  {name:<{max(map(len, names))}}  {plugins.summary(COMMANDS, file)}" for name, file in names.items()]
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
    try:
        gc.set_threshold(GC_THRESHOLD)
        _prepare_streams()
        warnings.formatwarning = _warning_line
        if sys.platform == "win32":
            _complain(NO_WINDOWS)
            sys.exit(2)
        from refil.cli import _signals  # first: from now on, Ctrl-C gives no traceback

        with _signals.watched(lambda number: _signals.stop()):
            code = _exit_code(sys.argv[1:])
            code = _flush(code)
    except KeyboardInterrupt:
        _complain("stopped")
        code = 130
    if code:
        sys.exit(code)


def _exit_code(arguments: list[str]) -> ExitCode:
    from refil.errors import RefilError

    try:
        _run(arguments)
    except RefilError as error:
        if os.environ.get("REFIL_TRACEBACK"):
            import traceback

            traceback.print_exc()
        from refil.cli import _advice

        _complain(_advice.error_text(error))
        return 2
    except SystemExit as stop:
        return stop.code
    except OSError as error:
        if error.filename is not None or error.errno not in UNWRITABLE:
            raise
        return _report_lost_output(error)
    return 0


def _run(arguments: list[str]) -> None:
    from refil import plugins
    from refil.errors import RefilError, list_choices

    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return
    command, *rest = arguments
    if command == "--version":
        from refil import __version__

        print(f"refil {__version__}")
        return
    if command not in (commands := _commands()):
        raise RefilError(f"unknown command {command!r}; {list_choices(command, commands)}")
    from refil.training import flags

    flags.disable_fma()  # before a command starts XLA
    plugins.load(COMMANDS, commands[command]).main(rest)


def _commands() -> dict[str, str]:
    """Return the file of each command; a hyphen in the name of a command is an underscore in that of its file."""
    from refil import plugins

    return {file.replace("_", "-"): file for file in plugins.names(COMMANDS)}


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


def _warning_line(message: Warning | str, *place: object, **line: object) -> str:
    """Return a warning as one line, without the source line that raised it."""
    from refil.cli import _advice

    return f"refil: warning: {_advice.as_commands(' '.join(str(message).split()))}\n"


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"refil: {text}", file=sys.stderr, flush=True)


def _flush(code: ExitCode) -> ExitCode:
    """Flush the standard streams, and return the exit code if output is lost; Python's own last flush then succeeds."""
    try:
        sys.stdout.flush()
    except OSError as error:
        code = code or _report_lost_output(error)
        _discard(sys.stdout)
    try:
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)
    return code


def _report_lost_output(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):  # the reader, such as head, has closed the pipe
        return 141
    _complain(f"cannot write the output: {error.strerror}")
    return 1


def _discard(stream: Any) -> None:
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()
