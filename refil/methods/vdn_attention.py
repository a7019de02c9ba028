"""VDN (Attention): the joint value is the sum of attention utilities."""

from dataclasses import dataclass
from functools import partial

from refil.learning.losses import q_learning
from refil.learning.networks import UtilityOptions, attention_vdn
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("VDN (Attention)", "attention", "VDN")


@dataclass(frozen=True)
class Config(UtilityOptions):
    """Options of VDN (Attention)."""


def build(config: Config, spec: Spec) -> Method:
    """Return the method for an environment of these sizes."""
    return q_learning(partial(attention_vdn, config, spec), config.discount)
