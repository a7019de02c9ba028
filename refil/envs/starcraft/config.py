"""Options of a battle."""

from dataclasses import dataclass
from typing import Literal

from refil.settings import PositiveInt


@dataclass(frozen=True)
class Config:
    """Options of a battle; the defaults are SMAC's and the authors'."""

    profile: Literal["smac", "smaclite"] = "smac"  # whose unit numbers and rules
    jitter: bool = True  # reload times vary by a loop or two
    acceleration: bool = True  # Medivacs gather speed
    absolute_reward: bool = True  # enemies that recover count as if hurt, as in the authors' wrapper
    healers_alone_lose: bool = True  # a side with only Medivacs left has lost
    limit: PositiveInt | None = None  # steps after which a battle ends, instead of the set's
