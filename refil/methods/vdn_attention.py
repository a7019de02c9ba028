"""VDN (Attention): the joint value is the sum of attention utilities."""

from dataclasses import dataclass
from functools import partial

from refil.learning.losses import plain
from refil.learning.networks import UtilityOptions, summed
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("VDN (Attention)", "attention", "VDN")


@dataclass(frozen=True)
class Config(UtilityOptions):
    """Options of VDN (Attention)."""


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return plain(partial(summed, config, spec), config.discount)
