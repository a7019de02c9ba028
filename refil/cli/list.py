"""List methods, environments, figures and experiments."""

from dataclasses import dataclass

from refil import plugins, settings

PACKAGES = {
    "methods": "refil.methods",
    "environments": "refil.envs",
    "figures": "refil.plots",
    "experiments": "refil.experiments",
}


@dataclass(frozen=True)
class ListArgs:
    """Without options, one line for everything."""

    methods: bool = False  # Print the paper's Table 1 with parameter counts
    env: str = "3-8sz"  # Environment for which parameters are counted


def main(arguments: list[str]) -> None:
    """Print all names with a description each."""
    args = settings.from_command_line(ListArgs, arguments, "refil list", __doc__)
    if args.methods:
        _print_methods(args.env)
        return
    for title, package in PACKAGES.items():
        names = plugins.names(package)
        print(f"{title}:")
        for name in names:
            print(f"  {name:<{max(map(len, names))}}  {plugins.summary(package, name)}")


def _print_methods(env: str) -> None:
    import jax
    from rich.console import Console
    from rich.table import Table

    from refil import methods
    from refil.training import config as configs

    table = Table("name", "label", "imagined", "model", "base", "utility", "mixer", title=f"methods, parameters for {env}")
    for name in plugins.names("refil.methods"):
        info = methods.method_info(name)
        config = configs.default(env, name)
        model = jax.eval_shape(config.build().method.init, jax.random.key(0))
        counts = {part: sum(leaf.size for leaf in jax.tree.leaves(getattr(model, part, None))) for part in ("utility", "mixer")}
        imagined = "yes" if getattr(config.method.options, "imagined_weight", 0) else "no"
        table.add_row(name, info.label, imagined, info.model, info.base, *(f"{count:,}" for count in counts.values()))
    Console(width=130).print(table)
