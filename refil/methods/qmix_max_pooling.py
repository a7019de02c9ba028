"""QMIX (Max Pooling): QMIX over a variable number of entities, with max pooling in place of attention."""

from dataclasses import dataclass
from functools import partial

from refil.learning.losses import q_learning
from refil.learning.networks import PoolingOptions, pooling_qmix
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("QMIX (Max Pooling)", "max pooling", "QMIX")


@dataclass(frozen=True)
class Config(PoolingOptions):
    """Options of QMIX (Max Pooling)."""


def build(config: Config, spec: Spec) -> Method:
    """Return the method for an environment of these sizes."""
    return q_learning(partial(pooling_qmix, config, "max", spec), config.discount)
