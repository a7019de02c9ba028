"""REFIL: attention QMIX that also learns to explain returns by random sub-groups of entities (Iqbal et al. 2021)."""

from dataclasses import dataclass
from functools import partial

from refil.learning import partitions
from refil.learning.losses import ImaginedOptions, imagining
from refil.learning.networks import MixerOptions, mixed
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("REFIL", "attention", "QMIX")


@dataclass(frozen=True)
class Config(ImaginedOptions, MixerOptions):
    """Options of REFIL."""


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return imagining(partial(mixed, config, spec), config.discount, partitions.as_drawn, config)
