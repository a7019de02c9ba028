"""QMIX (Attention): QMIX over a variable number of entities, with attention; REFIL without imagined values."""

from dataclasses import dataclass
from functools import partial

from refil.learning.losses import q_learning
from refil.learning.networks import MixerOptions, attention_qmix
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("QMIX (Attention)", "attention", "QMIX")


@dataclass(frozen=True)
class Config(MixerOptions):
    """Options of QMIX (Attention)."""


def build(config: Config, spec: Spec) -> Method:
    """Return the method for an environment of these sizes."""
    return q_learning(partial(attention_qmix, config, spec), config.discount)
