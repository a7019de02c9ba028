"""REFIL (UPDeT): the transformer of UPDeT, learned with random sub-groups of entities as REFIL is."""

from dataclasses import dataclass
from functools import partial

from refil import imagination
from refil.methods._factored import ImaginedOptions, imagining
from refil.methods._updet import UpdetOptions, with_qmix
from refil.types import Card, Method, Spec

CARD = Card("REFIL (UPDeT)", "UPDeT", "QMIX")


@dataclass(frozen=True)
class Config(ImaginedOptions, UpdetOptions):
    """Options of REFIL (UPDeT)."""


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return imagining(partial(with_qmix, config, spec), config.discount, imagination.as_drawn, config)
