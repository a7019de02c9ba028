"""What is trained and on what schedule; and the keys that everything of a seed's chance comes from."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import DTypeLike
from jaxtyping import Array, Int, Key

from refil.errors import RefilError
from refil.settings import NonNegativeFloat, NonNegativeInt, PositiveInt, UnitFloat
from refil.training.replay import learner
from refil.types import Defaults, Env, Method

INITIAL, PLAY, LEARN, EVALUATE = range(4)  # what a seed's keys are for


@dataclass(frozen=True)
class Schedule:
    """How much is played and learned, and when; the defaults are the paper's."""

    steps: PositiveInt = Defaults.steps  # environment steps to train for, each seed
    seeds: PositiveInt = 1  # how many seeds to train at once
    seed: NonNegativeInt = 0  # the first of them
    envs: PositiveInt = 8  # episodes played at once; as many updates follow
    batch: PositiveInt = 32  # episodes an update learns from
    buffer: PositiveInt = Defaults.buffer  # episodes kept to learn from
    lr: NonNegativeFloat = 5e-4  # learning rate
    max_norm: NonNegativeFloat = 10.0  # largest norm of a gradient
    target_every: PositiveInt = 200  # episodes between copies of the target networks
    epsilon_finish: UnitFloat = 0.05  # share of random actions in the end (1 at first)
    epsilon_steps: PositiveInt = Defaults.epsilon_steps  # environment steps until then
    eval_every: PositiveInt = Defaults.eval_every  # environment steps between evaluations
    eval_episodes: PositiveInt = Defaults.eval_episodes  # greedy episodes in an evaluation
    log_every: PositiveInt = 200  # episodes between lines of metrics
    # shares of its instants onto which a batch of short episodes is folded if it fits, the smallest first, which changes
    # nothing but rounding; each is compiled on its own, which pays in long runs of several seeds (none: --fold alone)
    fold: tuple[UnitFloat, ...] = Defaults.fold
    mask_dead: bool = False  # treat dead entities as absent


class Loop(NamedTuple):
    """A method learning an environment on a schedule."""

    env: Env
    method: Method
    schedule: Schedule
    activations: DTypeLike = jnp.float32  # the type of numbers that networks work in while they learn

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """The paper's."""
        return learner.rmsprop(self.schedule.lr, self.schedule.max_norm)


def check(schedule: Schedule, horizon: int) -> None:
    """Refuse schedules that cannot be."""
    if schedule.steps < horizon:
        raise RefilError(f"--steps {schedule.steps} is less than one episode ({horizon} steps)")
    for name in ("batch", "envs"):
        if getattr(schedule, name) > schedule.buffer:
            raise RefilError(f"--{name} {getattr(schedule, name)} is more than --buffer {schedule.buffer}")


def derive_keys(seeds: Int[Array, " seeds"], purpose: int, moments: Int[Array, " seeds"]) -> Key[Array, " seeds"]:
    """A key of its own for each seed, purpose and moment."""
    return jax.vmap(lambda seed, moment: jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), purpose), moment))(
        seeds, moments
    )
