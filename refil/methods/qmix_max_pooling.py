"""QMIX (Max Pooling): QMIX over a varying number of entities, by their largest features where QMIX (Attention) attends."""

from dataclasses import dataclass
from functools import partial

from refil.methods._factored import plain
from refil.methods._networks import PoolingOptions, pooled
from refil.types import Card, Method, Spec

CARD = Card("QMIX (Max Pooling)", "max pooling", "QMIX")


@dataclass(frozen=True)
class Config(PoolingOptions):
    """Options of QMIX (Max Pooling)."""


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return plain(partial(pooled, config, "max", spec), config.discount)
