"""REFIL (VDN): random sub-groups as in REFIL, with the sum of all factors as joint value."""

from dataclasses import dataclass
from functools import partial

from refil import imagination
from refil.methods._factored import RandomOptions, UtilityOptions, factored, summed
from refil.types import Method, Spec


@dataclass(frozen=True)
class Config(RandomOptions, UtilityOptions):
    """Options of REFIL (VDN)."""


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    partition = partial(imagination.random_sides, groups=config.groups)
    return factored(partial(summed, config, spec), config.discount, partition, config)
