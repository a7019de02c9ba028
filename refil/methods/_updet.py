"""What the methods with UPDeT's transformer share."""

from dataclasses import dataclass

import jax
from jaxtyping import PRNGKeyArray

from refil.methods._factored import HeadOptions, MixingOptions, attending_heads, qmix
from refil.nets.updet import updet_utility
from refil.settings import Count, Share
from refil.types import Defaults, Model, Spec


@dataclass(frozen=True)
class UpdetOptions(MixingOptions, HeadOptions):
    """A transformer in the utility, attention in the mixer."""

    discount: Share = 0.99  # what the next step is worth beside this one
    token: Count = 32  # width of a token, and of the memory
    token_heads: Count = 3  # heads of a block, each as wide as a token
    depth: Count = 2  # blocks
    size: Count = Defaults.size  # width of the mixer's embeddings and attention
    last_action: bool = Defaults.last_action  # networks read every agent's last action


def with_qmix(options: UpdetOptions, spec: Spec, key: PRNGKeyArray) -> Model:
    """A fresh model."""
    key_utility, key_mixer = jax.random.split(key)
    utility = updet_utility(spec, options.token, options.token_heads, options.depth, options.last_action, key_utility)
    gather = attending_heads(options.size, options.heads)
    return Model(utility, qmix(options, options.size, options.last_action, spec, gather, key_mixer))
