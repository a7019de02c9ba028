"""REFIL: QMIX with attention that also learns values imagined from random groups of entities (Iqbal et al. 2021)."""

from dataclasses import dataclass
from functools import partial

from refil.learning.losses import ImaginedOptions, factorized_q_learning, use_random
from refil.learning.networks import MixerOptions, attention_qmix
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("REFIL", "attention", "QMIX")


@dataclass(frozen=True)
class Config(ImaginedOptions, MixerOptions):
    """Options of REFIL."""


def build(config: Config, spec: Spec) -> Method:
    """Return the method for an environment of these sizes."""
    return factorized_q_learning(partial(attention_qmix, config, spec), config.discount, use_random, config)
