"""List the methods, environments, figures and experiments there are."""

from dataclasses import dataclass

from refil import plugins, settings

KINDS = {
    "methods": "refil.methods",
    "environments": "refil.envs",
    "figures": "refil.plots",
    "experiments": "refil.experiments",
}


@dataclass(frozen=True)
class Options:
    """By default one line for everything there is."""

    methods: bool = False  # print the paper's Table 1: imagined learning, model, base algorithm, and how many parameters
    env: str = "3-8sz"  # the environment that parameters are counted for


def main(arguments: list[str]) -> None:
    """One line for each."""
    options = settings.from_command_line(Options, arguments, "refil list", __doc__)
    if options.methods:
        table(options.env)
        return
    for title, package in KINDS.items():
        names = plugins.names(package)
        print(f"{title}:")
        for name in names:
            print(f"  {name:<{max(map(len, names))}}  {plugins.summary(package, name)}")


def table(env: str) -> None:
    """The methods side by side."""
    import jax
    from rich.console import Console
    from rich.table import Table

    from refil.training import config

    rows = Table("name", "label", "imagined", "model", "base", "utility", "mixer", title=f"methods, parameters for {env}")
    for name in plugins.names("refil.methods"):
        card = config.card(name)
        asked = config.default(env, name)
        model = jax.eval_shape(asked.build().method.init, jax.random.key(0))
        counts = [f"{sum(leaf.size for leaf in jax.tree.leaves(part)):,}" for part in (model.utility, model.mixer)]
        imagined = "yes" if hasattr(asked.options.method, "imagined_weight") else "no"
        rows.add_row(name, card.label, imagined, card.model, card.base, *counts)
    Console(width=130).print(rows)
