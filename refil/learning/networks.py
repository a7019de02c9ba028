"""Networks that several methods share, and their options."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Annotated, Literal

import jax
from jaxtyping import PRNGKeyArray

from refil.errors import RefilError
from refil.nn.attention import attention
from refil.nn.gru import gru
from refil.nn.layers import linear
from refil.nn.mixers import MIXERS, LinearQmix, Positive, Qmix, Vdn, hypernet
from refil.nn.normalized import normalized_linear
from refil.nn.pooling import PoolingKind, pooling
from refil.nn.targeted import TargetedUtility
from refil.nn.transformer import updet_utility
from refil.nn.utilities import Aggregator, Encoder, EntityEncoder, FeedForwardUtility, GruUtility
from refil.settings import FromEnv, PositiveInt, UnitFloat
from refil.types import Model, Spec

LayerFactory = Callable[[PRNGKeyArray], Aggregator]  # initializes a layer over sets


@dataclass(frozen=True)
class NetOptions:
    """Options of all networks."""

    discount: UnitFloat = 0.99  # Discount factor
    size: Annotated[PositiveInt, FromEnv] = 64  # Size of entity embeddings and encoders
    last_action: Annotated[bool, FromEnv] = True  # Add every agent's last action to its features


@dataclass(frozen=True)
class AgentOptions(NetOptions):
    """Options of the utility network."""

    recurrent: Annotated[bool, FromEnv] = True  # Give agents a memory (a GRU after the encoder)
    memory: PositiveInt = 64  # Size of the GRU's hidden state
    shared_targets: bool = False  # Score actions aimed at entities by the target's features, with the same weights for all


@dataclass(frozen=True)
class HeadOptions:
    """Options of attention."""

    heads: PositiveInt = 4  # Attention heads


@dataclass(frozen=True)
class MixingOptions:
    """Options of the mixing network."""

    # Mixing network: attention (QMIX's, with two layers), or linear (one weighted sum of the utilities)
    mixer: Annotated[Literal["attention", "linear"], FromEnv] = "attention"
    mixing: PositiveInt = 32  # Size of the mixing layer
    positive: Positive = "softmax"  # How mixing weights are made positive


@dataclass(frozen=True)
class UtilityOptions(HeadOptions, AgentOptions):
    """Options of an attention utility."""


@dataclass(frozen=True)
class MixerOptions(MixingOptions, UtilityOptions):
    """Options of an attention utility and an attention mixing network."""


@dataclass(frozen=True)
class PoolingOptions(MixingOptions, AgentOptions):
    """Options of a utility and a mixing network with pooling."""

    exact: bool = False  # Ignore entities that are not visible; the authors' code counts them as zeros


@dataclass(frozen=True)
class UpdetOptions(MixingOptions, HeadOptions, NetOptions):
    """Options of UPDeT with an attention mixing network; `size` and `heads` are the mixing network's."""

    token: PositiveInt = 32  # Size of a token and of the memory
    token_heads: PositiveInt = 3  # Heads of a transformer block, each as wide as a token
    depth: PositiveInt = 2  # Transformer blocks


TARGET_SIZE = 32  # columns of a query and of a target's embedding


def attention_factory(size: int, heads: int) -> LayerFactory:
    """Return a function that initializes attention layers of this size."""
    if size % heads:
        raise RefilError(f"method.size {size} must be a multiple of method.heads {heads}")
    return partial(attention, size, heads)


def input_size(spec: Spec, last_action: bool) -> int:
    """Return the number of inputs per entity."""
    return spec.features + (spec.actions if last_action else 0)


def entity_encoder(inputs: int, size: int, aggregator: LayerFactory, key: PRNGKeyArray) -> EntityEncoder:
    """Initialize an encoder with a new aggregator."""
    key_embed, key_aggregator = jax.random.split(key)
    return EntityEncoder(linear(inputs, size, key_embed), aggregator(key_aggregator))


def utility(options: AgentOptions, spec: Spec, aggregator: LayerFactory, key: PRNGKeyArray) -> FeedForwardUtility | GruUtility:
    """Initialize a utility whose encoder uses the given kind of layer."""
    key_encoder, key_rest = jax.random.split(key)
    encoder = entity_encoder(input_size(spec, options.last_action), options.size, aggregator, key_encoder)
    return utility_on(encoder, options, spec, key_rest)


def utility_on(encoder: Encoder, options: AgentOptions, spec: Spec, key: PRNGKeyArray) -> FeedForwardUtility | GruUtility:
    """Initialize a utility on top of an encoder, with or without memory."""
    key_input, key_gru, key_head = jax.random.split(key, 3)
    last_action_dim, outputs = spec.actions if options.last_action else 0, head_outputs(options, spec)
    if not options.recurrent:
        return FeedForwardUtility(encoder, linear(options.size, outputs, key_head), last_action_dim)
    with_memory = GruUtility(
        encoder=encoder,
        input_proj=linear(options.size, options.memory, key_input),
        gru=gru(options.memory, options.memory, key_gru),
        head=linear(options.memory, outputs, key_head),
        last_action_dim=last_action_dim,
    )
    return with_targets(with_memory, options, spec, jax.random.fold_in(key, 3))


def head_outputs(options: AgentOptions, spec: Spec) -> int:
    """Return the number of outputs of a head: one per action, or with shared targets one for all of these, and a query."""
    if not options.shared_targets:
        return spec.actions
    if not spec.target_actions:
        raise RefilError("method.shared_targets needs actions aimed at entities; this environment has none")
    if not options.recurrent:
        raise RefilError("method.shared_targets needs method.recurrent")
    return spec.actions - spec.target_actions + 1 + TARGET_SIZE


def with_targets(agent: GruUtility, options: AgentOptions, spec: Spec, key: PRNGKeyArray) -> GruUtility:
    """Return the utility, as one that scores actions aimed at entities by their targets if the options ask for that."""
    if not options.shared_targets:
        return agent
    parts = {part.name: getattr(agent, part.name) for part in fields(GruUtility)}
    embed_target = normalized_linear(input_size(spec, options.last_action), TARGET_SIZE, key)
    return TargetedUtility(**parts, embed_target=embed_target, target_actions=spec.target_actions)


def mixing_network(
    options: MixingOptions, net: NetOptions, spec: Spec, aggregator: LayerFactory, key: PRNGKeyArray
) -> Qmix | LinearQmix:
    """Initialize a mixing network whose hypernetworks use the given kind of layer."""
    make = partial(hypernet, input_size(spec, net.last_action), net.size, options.mixing, aggregator)
    return MIXERS[options.mixer](make, options.positive, spec.actions if net.last_action else 0, key)


def attention_qmix(options: MixerOptions, spec: Spec, key: PRNGKeyArray) -> Model:
    """Initialize a model with attention in the utility and in the mixing network."""
    key_utility, key_mixer = jax.random.split(key)
    aggregator = attention_factory(options.size, options.heads)
    mixer = mixing_network(options, options, spec, aggregator, key_mixer)
    return Model(utility(options, spec, aggregator, key_utility), mixer)


def attention_vdn(options: UtilityOptions, spec: Spec, key: PRNGKeyArray) -> Model:
    """Initialize a model that sums attention utilities."""
    return Model(utility(options, spec, attention_factory(options.size, options.heads), key), Vdn())


def pooling_qmix(options: PoolingOptions, kind: PoolingKind, spec: Spec, key: PRNGKeyArray) -> Model:
    """Initialize a model with pooling in the utility and in the mixing network."""
    key_utility, key_mixer = jax.random.split(key)
    aggregator = partial(pooling, options.size, kind, options.exact)
    mixer = mixing_network(options, options, spec, aggregator, key_mixer)
    return Model(utility(options, spec, aggregator, key_utility), mixer)


def updet_qmix(options: UpdetOptions, spec: Spec, key: PRNGKeyArray) -> Model:
    """Initialize a model with a transformer as utility and attention in the mixing network."""
    key_utility, key_mixer = jax.random.split(key)
    agent = updet_utility(spec, options.token, options.token_heads, options.depth, options.last_action, key_utility)
    aggregator = attention_factory(options.size, options.heads)
    return Model(agent, mixing_network(options, options, spec, aggregator, key_mixer))
