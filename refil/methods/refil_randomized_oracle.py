"""REFIL (Randomized Oracle): REFIL with random groups within the environment's true groups."""

from dataclasses import dataclass
from functools import partial

from refil.learning.losses import ImaginedOptions, factorized_q_learning, random_in_groups, switch_after_first_step, use_random
from refil.learning.networks import MixerOptions, attention_qmix
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("REFIL (Randomized Oracle)", "attention", "QMIX")


@dataclass(frozen=True)
class Config(ImaginedOptions, MixerOptions):
    """Options of REFIL (Randomized Oracle)."""

    forget_groups: bool = False  # Use true groups at the first timestep only, as the released code does by mistake


def build(config: Config, spec: Spec) -> Method:
    """Return the method for an environment of these sizes."""
    partition = random_in_groups
    if config.forget_groups:
        partition = partial(switch_after_first_step, random_in_groups, use_random)
    return factorized_q_learning(partial(attention_qmix, config, spec), config.discount, partition, config)
