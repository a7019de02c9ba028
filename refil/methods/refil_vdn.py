"""REFIL (VDN): REFIL whose joint value is the sum of all factors."""

from dataclasses import dataclass
from functools import partial

from refil.learning.losses import ImaginedOptions, factorized_q_learning, use_random
from refil.learning.networks import UtilityOptions, attention_vdn
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("REFIL (VDN)", "attention", "VDN")


@dataclass(frozen=True)
class Config(ImaginedOptions, UtilityOptions):
    """Options of REFIL (VDN)."""


def build(config: Config, spec: Spec) -> Method:
    """Return the method for an environment of these sizes."""
    return factorized_q_learning(partial(attention_vdn, config, spec), config.discount, use_random, config)
