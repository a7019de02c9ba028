"""QMIX (Max Pooling): QMIX over a varying number of entities, by their largest features where QMIX (Attention) attends."""

from dataclasses import dataclass
from functools import partial

from refil.learning.losses import plain
from refil.learning.networks import PoolingOptions, pooled
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("QMIX (Max Pooling)", "max pooling", "QMIX")


@dataclass(frozen=True)
class Config(PoolingOptions):
    """Options of QMIX (Max Pooling)."""


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return plain(partial(pooled, config, "max", spec), config.discount)
