"""REFIL (UPDeT): REFIL with UPDeT's transformer as utility."""

from dataclasses import dataclass
from functools import partial

from refil.learning.losses import ImaginedOptions, factorized_q_learning, use_random
from refil.learning.networks import UpdetOptions, updet_qmix
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("REFIL (UPDeT)", "UPDeT", "QMIX")


@dataclass(frozen=True)
class Config(ImaginedOptions, UpdetOptions):
    """Options of REFIL (UPDeT)."""


def build(config: Config, spec: Spec) -> Method:
    """Return the method for an environment of these sizes."""
    return factorized_q_learning(partial(updet_qmix, config, spec), config.discount, use_random, config)
