"""Options of StarCraft battles."""

from dataclasses import dataclass
from typing import Annotated, Literal

from refil.envs.starcraft.scenarios import Stat
from refil.envs.starcraft.splits import Tasks
from refil.settings import NonNegativeInt, PositiveInt, Range


@dataclass(frozen=True)
class Config:
    """Options of StarCraft battles; the defaults are SMAC's and the authors'."""

    profile: Literal["smac", "smaclite"] = "smac"  # Unit stats and rules: SMAC's or SMAClite's
    jitter: bool = True  # Weapon cooldowns vary randomly by a tick or two
    acceleration: bool = True  # Medivacs take time to reach full speed
    absolute_reward: bool = True  # Reward the absolute change of enemy health, as the authors' environment does
    healers_alone_lose: bool = True  # A team with only Medivacs left has lost
    # Number of tags per team, from which its units draw theirs (None: one per unit of the largest army). With more tags,
    # networks have inputs and actions for larger armies, in which the team can then be evaluated
    tags: PositiveInt | None = None
    limit: PositiveInt | None = None  # Steps after which a battle ends (None: the limit of the task set or map)
    # Tasks of a set: all, those to train on, or those that are held out (a fifth of 3-8sz, 3-8csz and 3-8MMM)
    tasks: Tasks = "all"
    # Stats that vary from task to task: each is multiplied by a number drawn for every team and unit type
    # (none: those of the set, if it has any)
    vary: tuple[Stat, ...] = ()
    variation: Annotated[float, Range(0, 3)] = 0.3  # Multipliers lie between 1 / (1 + variation) and 1 + variation
    draws: Annotated[int, Range(1, 10_000)] = 16  # Draws of multipliers per pair of armies, each of which is a task
    draw_seed: NonNegativeInt = 0  # Random seed of the multipliers; another seed gives other tasks of the same set
