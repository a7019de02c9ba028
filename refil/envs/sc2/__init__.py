"""The real StarCraft II (Linux), with the battles of the simulator's task sets and armies."""

from functools import partial
from types import SimpleNamespace

from refil.envs import starcraft
from refil.envs.sc2.config import Config
from refil.envs.starcraft import scenarios
from refil.envs.starcraft.scenarios import SCENARIOS

PREFIX = "sc2:"
LISTED = ("3-8sz", "3-8csz", "3-8MMM")  # names in lists; all others of the simulator work too


def names() -> list[str]:
    """Return the names of the paper's task sets."""
    return [PREFIX + name for name in LISTED]


def summary(name: str) -> str:
    """Return one line about a task set."""
    return f"{starcraft.summary(name.removeprefix(PREFIX))[:-1]} in the real game; sc2: before any other name works too."


def explain(name: str) -> str | None:
    """Return what may follow the prefix."""
    if not name.startswith(PREFIX):
        return None
    known = ", ".join(name for name, scenario in SCENARIOS.items() if not scenario.vary)
    return starcraft.explain(name.removeprefix(PREFIX)) or f"sc2: is followed by a task set, a map or two armies: {known}"


def serve(name: str) -> SimpleNamespace | None:
    """Return the environment plug-in of `sc2:` and a task set, a map, or any two armies, or None for other names."""
    battle = name.removeprefix(PREFIX)
    if battle == name or not (battle in SCENARIOS or scenarios.is_task_name(battle)):
        return None
    from refil.envs.sc2 import env  # imports JAX, which `--help` does without

    scenario = SCENARIOS.get(battle) or scenarios.custom(battle)
    return SimpleNamespace(Config=Config, build=partial(env.build, scenario), DEFAULTS=env.DEFAULTS)
