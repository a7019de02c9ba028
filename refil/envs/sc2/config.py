"""Options of battles in the real StarCraft II."""

from dataclasses import dataclass

from refil.envs.starcraft.splits import Tasks
from refil.settings import NonNegativeInt, PositiveInt


@dataclass(frozen=True)
class Config:
    """Options of battles in the real StarCraft II; those of the simulator that concern its own rules do not apply."""

    games: PositiveInt = 8  # Games that run at once, each in a process of its own; more episodes are played batch by batch
    build: PositiveInt | None = None  # Build of the game, such as 75689 for version 4.10 (None: the newest one installed)
    game_seed: NonNegativeInt = 0  # Random seed of the first game; the others have the numbers that follow
    # Seconds without an answer after which a game counts as hung; four times as many while it launches or loads its map
    timeout: PositiveInt = 30
    absolute_reward: bool = True  # Reward the absolute change of enemy health, as the authors' environment does
    healers_alone_lose: bool = True  # A team with only Medivacs left has lost
    # Number of tags per team, from which its units draw theirs (None: one per unit of the largest army). With more tags,
    # networks have inputs and actions for larger armies, in which the team can then be evaluated
    tags: PositiveInt | None = None
    limit: PositiveInt | None = None  # Steps after which a battle ends (None: the limit of the task set or map)
    # Tasks of a set: all, those to train on, or those that are held out (a fifth of 3-8sz, 3-8csz and 3-8MMM)
    tasks: Tasks = "all"
