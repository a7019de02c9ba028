"""REFIL (Fixed Oracle): imagines the environment's true groups instead of random ones."""

from dataclasses import dataclass
from functools import partial

from refil.learning import partitions
from refil.learning.losses import ImaginedOptions, imagining
from refil.learning.networks import MixerOptions, mixed
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("REFIL (Fixed Oracle)", "attention", "QMIX")


@dataclass(frozen=True)
class Config(ImaginedOptions, MixerOptions):
    """Options of REFIL (Fixed Oracle)."""

    forget_groups: bool = False  # as the released code does by mistake: true groups at the first instant only


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    partition = partitions.true_groups
    if config.forget_groups:
        partition = partial(partitions.at_first, partition, partitions.all_together)
    return imagining(partial(mixed, config, spec), config.discount, partition, config)
