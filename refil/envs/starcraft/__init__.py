"""StarCraft battles between armies that change from episode to episode (paper, section 4.2), modeled on SMAC."""

import re
from functools import partial
from types import SimpleNamespace

from refil.envs.starcraft import scenarios
from refil.envs.starcraft.config import Config
from refil.envs.starcraft.scenarios import SCENARIOS


def names() -> list[str]:
    """Return the names of the task sets and maps."""
    return list(SCENARIOS)


def summary(name: str) -> str:
    """Return one line about a task set or map."""
    pairs = SCENARIOS[name].tasks()
    armies = scenarios.task_name(*pairs[0]) if len(pairs) == 1 else f"{len(pairs)} pairs of armies"
    vary = SCENARIOS[name].vary
    varied = f", whose {', '.join(vary[:-1])} and {vary[-1]} vary" if vary else ""
    return f"StarCraft: {armies}{varied}, {SCENARIOS[name].limit} steps."


def explain(name: str) -> str | None:
    """Return how to write a battle that a name may mean: SMAC's remaining map, or armies in another notation."""
    how = f"any two armies are numbers and letters, as in 3s5z_vs_3s6z ({scenarios.LETTERS})"
    if name.lower() == "corridor":
        return f"the walls of SMAC's corridor are not simulated; its armies on open ground are 6z_vs_24zg, and {how}"
    if re.fullmatch(r"(smac(lite|v2)?|starcraft|sc ?2?)[ _-]*(2|ii)?", name.lower()):
        return f"StarCraft has sets of battles such as 3-8sz and maps such as 3m, and {how}"
    return how if re.search(r"\d *[a-z]+[ _-]*vs?[ _.-]*\d", name.lower()) else None


def serve(name: str) -> SimpleNamespace | None:
    """Return the environment plug-in of a task set, a map, or any two armies (`3s5z_vs_3s6z`), or None for other names."""
    if name not in SCENARIOS and not scenarios.is_task_name(name):
        return None
    from refil.envs.starcraft import env  # imports JAX, which `--help` does without

    scenario = SCENARIOS.get(name) or scenarios.custom(name)
    return SimpleNamespace(Config=Config, build=partial(env.build, scenario), DEFAULTS=env.DEFAULTS)
