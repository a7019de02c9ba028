"""The `refil` command: finds the command asked for and hands it the rest of the line."""

import os
import platform
import sys

from refil import plugins
from refil.errors import RefilError

COMMANDS = "refil.cli"
# A CPU that cannot join a product and a sum into one operation. Which ones XLA joins depends on the program around them, so
# that a battle would round differently alone and among others. It costs no time that could be measured.
NO_FMA = "--xla_cpu_max_isa=AVX"


def usage() -> str:
    """All commands with a line each."""
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


def disable_fma() -> None:
    """Have XLA, which has not started yet, round alike in all programs of a CPU, unless the user asks for another one."""
    flags = os.environ.get("XLA_FLAGS", "")
    if platform.machine() in ("x86_64", "AMD64") and "xla_cpu_max_isa" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {NO_FMA}".strip()


def main() -> None:
    """Run one command; errors that the user can mend are one line and exit code 2."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return
    if arguments[0] == "--version":
        from importlib.metadata import version

        print(f"refil {version('refil')}")
        return
    try:
        if arguments[0] not in plugins.names(COMMANDS):
            raise RefilError(f"there is no command {arguments[0]!r}; there are {', '.join(plugins.names(COMMANDS))}")
        disable_fma()
        plugins.load(COMMANDS, arguments[0]).main(arguments[1:])
    except RefilError as error:
        print(f"refil: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nrefil: stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # whoever read this, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python's last flush does not fail either
        sys.exit(141)


if __name__ == "__main__":
    main()
