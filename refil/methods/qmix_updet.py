"""QMIX (UPDeT): a transformer over entities whose tokens score the actions aimed at them (Hu et al. 2021)."""

from dataclasses import dataclass
from functools import partial

from refil.learning.losses import q_learning
from refil.learning.networks import UpdetOptions, updet_qmix
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("QMIX (UPDeT)", "UPDeT", "QMIX")


@dataclass(frozen=True)
class Config(UpdetOptions):
    """Options of QMIX (UPDeT)."""


def build(config: Config, spec: Spec) -> Method:
    """Return the method for an environment of these sizes."""
    return q_learning(partial(updet_qmix, config, spec), config.discount)
