"""Options of on-policy training."""

from dataclasses import dataclass, replace
from typing import Literal

from refil.errors import RefilError
from refil.learning.onpolicy import OnPolicyMethod
from refil.settings import NonNegativeFloat, PositiveInt, UnitFloat
from refil.training.setup import OutputConfig, TrainConfig

LOG_EVERY = 20_000  # episodes: every few seconds on a GPU
STEPS = 5  # times the environment's own number of steps: on-policy steps are much faster, and used less often


@dataclass(frozen=True)
class OnPolicyConfig:
    """Options of on-policy training: PQN (Gallici et al. 2025) with an averaged target network."""

    rollout: PositiveInt = 32  # Steps that every environment makes between updates
    minibatches: PositiveInt = 16  # Updates per epoch, each from the whole rollouts of some environments
    epochs: PositiveInt = 4  # Passes over each rollout
    lr: NonNegativeFloat = 5e-4  # Learning rate
    lr_decay: bool = True  # Decrease the learning rate linearly to zero at the last step
    optimizer: Literal["radam", "adam"] = "radam"  # Optimizer of the updates: RAdam or Adam
    max_grad_norm: NonNegativeFloat = 10.0  # Maximum norm of the gradient
    td_lambda: UnitFloat = 0.85  # Lambda of the TD(lambda) targets: 0 is one step, 1 the whole rollout
    # Network that computes targets: the averaged one or a frozen copy (once per rollout), or the current one (in every
    # minibatch)
    targets: Literal["average", "frozen", "current"] = "average"
    average: UnitFloat = 0.9  # Decay of the averaged network per iteration; the averaged network is evaluated and saved
    epsilon_finish: UnitFloat = 0.05  # Final probability of a random action; the initial one is 1
    epsilon_fraction: UnitFloat = 0.05  # Fraction of all steps over which epsilon is annealed
    # Fraction of episodes whose task is sampled by learnability p(1 - p), where p is the task's recent win rate in training.
    # Other tasks, and those of evaluations, are sampled uniformly
    learnability: UnitFloat = 0.0
    # Steps between draws of new initial states; an episode that ends restarts from the latest draw
    reset_every: PositiveInt = 16


Config = OnPolicyConfig
METHOD = OnPolicyMethod  # type of the methods that this algorithm trains


def defaults(train: TrainConfig, output: OutputConfig) -> tuple[TrainConfig, OutputConfig]:
    """Return the defaults of training: many environments, more steps than with a replay buffer, and fewer lines of metrics."""
    steps = STEPS * train.steps
    train = replace(train, envs=1024, steps=steps, eval_every=max(train.eval_every, steps // 50), precision="auto")
    return train, replace(output, log_every=LOG_EVERY)


def check(config: OnPolicyConfig, train: TrainConfig) -> None:
    """Raise if the sizes contradict each other."""
    if train.envs % config.minibatches:
        raise RefilError(f"train.envs {train.envs} is not a multiple of algorithm.minibatches {config.minibatches}")
    if config.rollout % config.reset_every and config.rollout > config.reset_every:
        raise RefilError(f"algorithm.rollout {config.rollout} is not a multiple of algorithm.reset_every {config.reset_every}")
