"""QMIX (Attention): QMIX over a varying number of entities, by attention in utilities and mixer; REFIL without imagination."""

from dataclasses import dataclass
from functools import partial

from refil.methods._factored import plain
from refil.methods._networks import MixerOptions, mixed
from refil.types import Card, Method, Spec

CARD = Card("QMIX (Attention)", "attention", "QMIX")


@dataclass(frozen=True)
class Config(MixerOptions):
    """Options of QMIX (Attention)."""


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return plain(partial(mixed, config, spec), config.discount)
