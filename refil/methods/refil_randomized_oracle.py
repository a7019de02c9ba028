"""REFIL (Randomized Oracle): imagines random sub-groups of the environment's true groups."""

from dataclasses import dataclass
from functools import partial

from refil.learning import partitions
from refil.learning.losses import ImaginedOptions, imagining
from refil.learning.networks import MixerOptions, mixed
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("REFIL (Randomized Oracle)", "attention", "QMIX")


@dataclass(frozen=True)
class Config(ImaginedOptions, MixerOptions):
    """Options of REFIL (Randomized Oracle)."""

    forget_groups: bool = False  # as the released code does by mistake: true groups at the first instant only


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    partition = partitions.random_in_groups
    if config.forget_groups:
        partition = partial(partitions.at_first, partition, partitions.as_drawn)
    return imagining(partial(mixed, config, spec), config.discount, partition, config)
