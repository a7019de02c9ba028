"""REFIL (Fixed Oracle): REFIL with the environment's true groups instead of random ones."""

from dataclasses import dataclass
from functools import partial

from refil.learning.losses import ImaginedOptions, factorized_q_learning, single_group, switch_after_first_step, true_groups
from refil.learning.networks import MixerOptions, attention_qmix
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("REFIL (Fixed Oracle)", "attention", "QMIX")


@dataclass(frozen=True)
class Config(ImaginedOptions, MixerOptions):
    """Options of REFIL (Fixed Oracle)."""

    forget_groups: bool = False  # Use true groups at the first timestep only, as the released code does by mistake


def build(config: Config, spec: Spec) -> Method:
    """Return the method for an environment of these sizes."""
    partition = true_groups
    if config.forget_groups:
        partition = partial(switch_after_first_step, true_groups, single_group)
    return factorized_q_learning(partial(attention_qmix, config, spec), config.discount, partition, config)
