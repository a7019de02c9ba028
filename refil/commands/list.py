"""List the methods and environments there are."""

from dataclasses import dataclass

from refil import plugins, settings


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


def main(arguments: list[str]) -> None:
    """One line for each."""
    settings.from_command_line(Options, arguments, "refil list", __doc__)
    for title, package in (("methods", "refil.methods"), ("environments", "refil.envs"), ("figures", "refil.plots")):
        names = plugins.names(package)
        print(f"{title}:")
        for name in names:
            print(f"  {name:<{max(map(len, names))}}  {plugins.summary(package, name)}")
