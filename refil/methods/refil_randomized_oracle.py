"""REFIL (Randomized Oracle): imagines random sub-groups of the environment's true groups."""

from dataclasses import dataclass
from functools import partial

from refil import imagination
from refil.methods._factored import MixerOptions, RandomOptions, factored, mixed
from refil.types import Method, Spec


@dataclass(frozen=True)
class Config(RandomOptions, MixerOptions):
    """Options of REFIL (Randomized Oracle)."""

    forget_groups: bool = False  # as the released code does by mistake: true groups at the first instant only


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    partition = partial(imagination.random_in_groups, groups=config.groups)
    if config.forget_groups:
        partition = partial(imagination.at_first, partition, partial(imagination.random_sides, groups=config.groups))
    return factored(partial(mixed, config, spec), config.discount, partition, config)
