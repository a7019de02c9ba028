"""The `refil` command: finds the command asked for and passes it the remaining arguments."""

import os
import sys

from refil import plugins
from refil.errors import RefilError

COMMANDS = "refil.cli"


def usage() -> str:
    """Return the list of all commands."""
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
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return
    if arguments[0] == "--version":
        from refil import __version__

        print(f"refil {__version__}")
        return
    try:
        _run(arguments[0], arguments[1:])
    except RefilError as error:
        print(f"refil: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nrefil: stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python's last flush fails too
        sys.exit(141)


def _run(command: str, arguments: list[str]) -> None:
    if command not in plugins.names(COMMANDS):
        raise RefilError(plugins.unknown_name(COMMANDS, command))
    from refil.training import flags

    flags.disable_fma()  # before a command starts XLA
    plugins.load(COMMANDS, command).main(arguments)


if __name__ == "__main__":
    main()
