"""QMIX (Mean Pooling): QMIX over a varying number of entities, averaged where QMIX (Attention) attends."""

from dataclasses import dataclass
from functools import partial

from refil.learning.losses import plain
from refil.learning.networks import PoolingOptions, pooled
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("QMIX (Mean Pooling)", "mean pooling", "QMIX")


@dataclass(frozen=True)
class Config(PoolingOptions):
    """Options of QMIX (Mean Pooling)."""


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return plain(partial(pooled, config, "mean", spec), config.discount)
