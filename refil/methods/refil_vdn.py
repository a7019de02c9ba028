"""REFIL (VDN): random sub-groups as in REFIL, with the sum of all factors as joint value."""

from dataclasses import dataclass
from functools import partial

from refil import imagination
from refil.methods._factored import ImaginedOptions, imagining
from refil.methods._networks import UtilityOptions, summed
from refil.types import Card, Method, Spec

CARD = Card("REFIL (VDN)", "attention", "VDN")


@dataclass(frozen=True)
class Config(ImaginedOptions, UtilityOptions):
    """Options of REFIL (VDN)."""


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return imagining(partial(summed, config, spec), config.discount, imagination.as_drawn, config)
