"""The networks that methods share, and their options."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
from jaxtyping import PRNGKeyArray

from refil.errors import RefilError
from refil.nn.attention import attention
from refil.nn.mixers import MIXERS, AttentionQmix, LinearQmix, Positive, Vdn, hyper
from refil.nn.pooling import PoolingKind, pooling
from refil.nn.utilities import FeedForwardUtility, Gather, GruUtility, entity_encoder, scoring_utility
from refil.settings import PositiveInt, UnitFloat
from refil.types import Defaults, Model, Spec

Gathering = Callable[[PRNGKeyArray], Gather]  # makes a fresh layer over sets


@dataclass(frozen=True)
class NetOptions:
    """What all networks have."""

    discount: UnitFloat = 0.99  # what the next step is worth beside this one
    size: PositiveInt = Defaults.size  # width of embeddings and encoders
    last_action: bool = Defaults.last_action  # networks read every agent's last action


@dataclass(frozen=True)
class AgentOptions(NetOptions):
    """The network that every agent runs."""

    recurrent: bool = Defaults.recurrent  # remember earlier instants (a GRU behind the encoder)
    memory: PositiveInt = 64  # width of the memory


@dataclass(frozen=True)
class HeadOptions:
    """Attention."""

    heads: PositiveInt = 4  # attention heads


@dataclass(frozen=True)
class MixingOptions:
    """The network that joins the utilities."""

    mixer: Literal["attention", "linear"] = Defaults.mixer  # two layers (QMIX) or a weighted sum
    mixing: PositiveInt = 32  # width of the mixing layer
    positive: Positive = "softmax"  # how mixing weights are kept positive


@dataclass(frozen=True)
class UtilityOptions(HeadOptions, AgentOptions):
    """Attention utilities."""


@dataclass(frozen=True)
class MixerOptions(MixingOptions, UtilityOptions):
    """Attention utilities and a mixer with attention."""


@dataclass(frozen=True)
class PoolingOptions(MixingOptions, AgentOptions):
    """Utilities and a mixer with pooling."""

    exact: bool = False  # what is out of view does not count, where the authors count it as zeros


def attending(size: int, heads: int) -> Gathering:
    """Attention layers of this width and so many heads."""
    if size % heads:
        raise RefilError(f"--method.size {size} must be a multiple of --method.heads {heads}")
    return partial(attention, size, heads)


def width(spec: Spec, last_action: bool) -> int:
    """How many numbers networks read of an entity."""
    return spec.features + (spec.actions if last_action else 0)


def utility(options: AgentOptions, spec: Spec, gather: Gathering, key: PRNGKeyArray) -> FeedForwardUtility | GruUtility:
    """A fresh utility around layers of this kind."""
    key_encode, key_rest = jax.random.split(key)
    encode = entity_encoder(width(spec, options.last_action), options.size, gather, key_encode)
    return scoring_utility(spec, encode, options.recurrent, options.size, options.memory, options.last_action, key_rest)


def qmix(
    options: MixingOptions, size: int, last_action: bool, spec: Spec, gather: Gathering, key: PRNGKeyArray
) -> AttentionQmix | LinearQmix:
    """A fresh mixing network around layers of this kind."""
    make = partial(hyper, width(spec, last_action), size, options.mixing, gather)
    return MIXERS[options.mixer](make, options.positive, spec.actions if last_action else 0, key)


def mixed(options: MixerOptions, spec: Spec, key: PRNGKeyArray) -> Model:
    """A fresh model with attention in utilities and mixer."""
    key_utility, key_mixer = jax.random.split(key)
    gather = attending(options.size, options.heads)
    mixer = qmix(options, options.size, options.last_action, spec, gather, key_mixer)
    return Model(utility(options, spec, gather, key_utility), mixer)


def summed(options: UtilityOptions, spec: Spec, key: PRNGKeyArray) -> Model:
    """A fresh model that adds utilities up."""
    return Model(utility(options, spec, attending(options.size, options.heads), key), Vdn())


def pooled(options: PoolingOptions, kind: PoolingKind, spec: Spec, key: PRNGKeyArray) -> Model:
    """A fresh model with pooling in utilities and mixer."""
    key_utility, key_mixer = jax.random.split(key)
    gather = partial(pooling, options.size, kind, options.exact)
    mixer = qmix(options, options.size, options.last_action, spec, gather, key_mixer)
    return Model(utility(options, spec, gather, key_utility), mixer)
