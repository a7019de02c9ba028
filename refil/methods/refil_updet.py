"""REFIL (UPDeT): the transformer of UPDeT, learned with random sub-groups of entities as REFIL is."""

from dataclasses import dataclass
from functools import partial

from refil.learning import partitions
from refil.learning.losses import ImaginedOptions, imagining
from refil.learning.updet import UpdetOptions, with_qmix
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("REFIL (UPDeT)", "UPDeT", "QMIX")


@dataclass(frozen=True)
class Config(ImaginedOptions, UpdetOptions):
    """Options of REFIL (UPDeT)."""


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return imagining(partial(with_qmix, config, spec), config.discount, partitions.as_drawn, config)
