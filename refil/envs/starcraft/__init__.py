"""StarCraft battles between armies that change from episode to episode (paper, section 4.2), after SMAC."""

from functools import partial
from types import SimpleNamespace

from refil.envs.starcraft import scenarios
from refil.envs.starcraft.config import Config
from refil.envs.starcraft.scenarios import SCENARIOS


def names() -> list[str]:
    """The task sets and maps."""
    return list(SCENARIOS)


def summary(name: str) -> str:
    """What is fought there."""
    pairs = SCENARIOS[name].tasks()
    armies = scenarios.battle_name(*pairs[0]) if len(pairs) == 1 else f"{len(pairs)} pairs of armies"
    return f"StarCraft: {armies}, {SCENARIOS[name].limit} steps."


def serve(name: str) -> SimpleNamespace | None:
    """The environment of a task set or map, or of any two armies: `3s5z_vs_3s6z`."""
    if name not in SCENARIOS and not scenarios.is_battle(name):
        return None
    from refil.envs.starcraft import env  # JAX only where it is needed: names are asked for by --help

    scenario = SCENARIOS.get(name) or scenarios.free(name)
    return SimpleNamespace(Config=Config, build=partial(env.build, scenario))
