"""REFIL (VDN): random sub-groups as in REFIL, with the sum of all factors as joint value."""

from dataclasses import dataclass
from functools import partial

from refil.learning import partitions
from refil.learning.losses import ImaginedOptions, imagining
from refil.learning.networks import UtilityOptions, summed
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("REFIL (VDN)", "attention", "VDN")


@dataclass(frozen=True)
class Config(ImaginedOptions, UtilityOptions):
    """Options of REFIL (VDN)."""


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return imagining(partial(summed, config, spec), config.discount, partitions.as_drawn, config)
