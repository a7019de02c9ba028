"""What the methods with UPDeT's transformer share."""

from dataclasses import dataclass

import jax
from jaxtyping import PRNGKeyArray

from refil.learning.networks import HeadOptions, MixingOptions, NetOptions, attending, qmix
from refil.nn.transformer import updet_utility
from refil.settings import PositiveInt
from refil.types import Model, Spec


@dataclass(frozen=True)
class UpdetOptions(MixingOptions, HeadOptions, NetOptions):
    """A transformer in the utility, attention in the mixer; `size` is the mixer's."""

    token: PositiveInt = 32  # width of a token, and of the memory
    token_heads: PositiveInt = 3  # heads of a block, each as wide as a token
    depth: PositiveInt = 2  # blocks


def with_qmix(options: UpdetOptions, spec: Spec, key: PRNGKeyArray) -> Model:
    """A fresh model."""
    key_utility, key_mixer = jax.random.split(key)
    utility = updet_utility(spec, options.token, options.token_heads, options.depth, options.last_action, key_utility)
    gather = attending(options.size, options.heads)
    return Model(utility, qmix(options, options.size, options.last_action, spec, gather, key_mixer))
