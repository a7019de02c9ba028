"""Options of every run, and `Setup`: the environment, the method and the options of a training program."""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax.numpy as jnp
from jax.typing import DTypeLike

from refil.hardware import Kernels
from refil.settings import FromEnv, NonNegativeFloat, NonNegativeInt, PositiveInt
from refil.training.flags import Precision
from refil.types import Env

INIT, PLAY, LEARN, EVALUATE = range(4)  # purposes of a seed's random keys


@dataclass(frozen=True)
class TrainConfig:
    """How long to train, on how many seeds and environments, and how to evaluate."""

    steps: Annotated[PositiveInt, FromEnv] = 1_000_000  # Environment steps to train each seed for
    seeds: PositiveInt = 1  # Number of seeds to train in parallel
    seed: NonNegativeInt = 0  # First seed
    envs: PositiveInt = 8  # Environments per seed, stepped in parallel; with replay, one update follows per episode played
    eval_every: Annotated[PositiveInt, FromEnv] = 10_000  # Environment steps between evaluations
    eval_episodes: Annotated[PositiveInt, FromEnv] = 100  # Greedy episodes per evaluation
    mask_dead: bool = False  # Treat dead entities as absent
    # Precision of matrix products on a GPU; bf16 also stores activations in bfloat16, and auto means bf16 where it is faster
    precision: Precision = "float32"
    kernels: Kernels = "auto"  # Use of GPU kernels: auto (on GPUs that support them), on, or off
    deterministic: bool = False  # Make GPU runs bit-identical, at some cost in speed (CPU runs always are)


@dataclass(frozen=True)
class OutputConfig:
    """Options of what a run writes, and when it stops; they may change when a run is resumed."""

    log_every: PositiveInt = 200  # Episodes between lines in metrics.jsonl
    save_every: NonNegativeFloat = 5.0  # Minutes between checkpoints
    # Compress the replay buffer in checkpoints: store initial state, key, actions and rewards, and re-simulate the
    # episodes on resume (40 times smaller for battles; no effect on on-policy methods, which have no replay buffer)
    compact_checkpoints: bool = False
    stop_after: NonNegativeFloat | None = None  # Minutes after which this process saves and stops, compilation included
    replay: bool = False  # Write replay.html at the end of training, a page that plays episodes of the first seed's team
    tensorboard: bool = False  # Write TensorBoard event files into the run's folder
    wandb: str | None = None  # Name of a Weights & Biases project to log to


class Setup(NamedTuple):
    """An environment, a method and the options of training; a constant of compiled programs."""

    env: Env
    method: Any  # a `Method` or an `OnPolicyMethod`, as the algorithm needs it
    algorithm: Any
    train: TrainConfig
    compute_dtype: DTypeLike = jnp.float32
