"""QMIX (Attention): QMIX over a varying number of entities, by attention in utilities and mixer; REFIL without imagination."""

from dataclasses import dataclass
from functools import partial

from refil.learning.losses import plain
from refil.learning.networks import MixerOptions, mixed
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("QMIX (Attention)", "attention", "QMIX")


@dataclass(frozen=True)
class Config(MixerOptions):
    """Options of QMIX (Attention)."""


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return plain(partial(mixed, config, spec), config.discount)
