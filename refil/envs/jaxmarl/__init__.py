"""Environments of JaxMARL as entity environments: SMAX maps, and simple_spread of the multi-agent particle environments."""

from importlib.util import find_spec
from types import SimpleNamespace

from refil.errors import needs_extra

MAPS = (
    *("3m", "8m", "25m", "5m_vs_6m", "10m_vs_11m", "27m_vs_30m", "2s3z", "3s5z", "3s5z_vs_3s6z", "3s_vs_5z", "6h_vs_8z"),
    *("smacv2_5_units", "smacv2_10_units", "smacv2_20_units"),
)
SPREAD = "mpe_simple_spread"
SMAX_NAMES = {f"smax_{name}": name for name in MAPS}


def names() -> list[str]:
    """Return the names of the environments; none where JaxMARL is not installed."""
    return [*SMAX_NAMES, SPREAD] if find_spec("jaxmarl") else []


def summary(name: str) -> str:
    """Return one line about an environment."""
    return f"JaxMARL: {f'SMAX, map {SMAX_NAMES[name]}' if name in SMAX_NAMES else 'agents cover landmarks'}."


def explain(name: str) -> str | None:
    """Return which names there are for one that looks like an environment of JaxMARL."""
    if name.lower().startswith(("smax", "mpe")):
        return f"environments of JaxMARL are {SPREAD} and smax_MAP, where MAP is {', '.join(MAPS)}"
    return None


def serve(name: str) -> SimpleNamespace | None:
    """Return the environment plug-in of a name, or None for other names."""
    if name not in SMAX_NAMES and name != SPREAD:
        return None
    with needs_extra(name, "jaxmarl", "jaxmarl"):
        import jaxmarl  # noqa: F401  # pyright: ignore[reportMissingImports] (its pins clash with ours)

    from refil.envs.jaxmarl import smax, spread

    if name == SPREAD:
        return SimpleNamespace(Config=spread.Config, build=spread.build, DEFAULTS=spread.DEFAULTS)
    return SimpleNamespace(Config=smax.Config, build=smax.builder(SMAX_NAMES[name]), DEFAULTS=smax.DEFAULTS)
