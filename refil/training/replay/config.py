"""Options of training from a replay buffer."""

from dataclasses import dataclass
from typing import Annotated

from refil.errors import RefilError
from refil.settings import FromEnv, NonNegativeFloat, PositiveInt, UnitFloat
from refil.training.setup import OutputConfig, TrainConfig
from refil.types import Method


@dataclass(frozen=True)
class ReplayConfig:
    """Options of training from a replay buffer; the defaults are the paper's."""

    batch: PositiveInt = 32  # Episodes per update
    buffer: Annotated[PositiveInt, FromEnv] = 5000  # Episodes in the replay buffer
    lr: NonNegativeFloat = 5e-4  # Learning rate
    max_grad_norm: NonNegativeFloat = 10.0  # Maximum norm of the gradient
    target_every: PositiveInt = 200  # Episodes between updates of the target network
    epsilon_finish: UnitFloat = 0.05  # Final probability of a random action; the initial one is 1
    epsilon_steps: Annotated[PositiveInt, FromEnv] = 50_000  # Environment steps over which epsilon is annealed
    # Fractions of the padded batch size. The episodes of a batch are packed end to end into the smallest of these sizes that
    # fits, which saves time and changes only rounding. Each size is compiled separately; several pay off in long runs. Without
    # a value, batches are never packed
    pack: Annotated[tuple[UnitFloat, ...], FromEnv] = (0.5,)


Config = ReplayConfig
METHOD = Method  # type of the methods that this algorithm trains


def defaults(train: TrainConfig, output: OutputConfig) -> tuple[TrainConfig, OutputConfig]:
    """Return the defaults of training: the paper's, which an environment may choose."""
    return train, output


def check(config: ReplayConfig, train: TrainConfig) -> None:
    """Raise if the sizes contradict each other."""
    for name, value in (("algorithm.batch", config.batch), ("train.envs", train.envs)):
        if value > config.buffer:
            raise RefilError(f"{name} {value} is larger than algorithm.buffer {config.buffer}")
