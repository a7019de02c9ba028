"""Networks that several methods share, and their options."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import jax
from jaxtyping import PRNGKeyArray

from refil.errors import RefilError
from refil.nn.attention import attention
from refil.nn.gru import gru
from refil.nn.layer_norm import layer_norm
from refil.nn.layers import linear
from refil.nn.mixers import MIXERS, LinearQmix, Positive, Qmix, Vdn, hypernet
from refil.nn.normalized import ExactLinear, NormalizedHead, NormalizedQmix, normalized_encoder, normalized_linear
from refil.nn.pooling import PoolingKind, pooling
from refil.nn.targeted import TargetedUtility
from refil.nn.transformer import updet_utility
from refil.nn.utilities import Aggregator, Encoder, EntityEncoder, FeedForwardUtility, GruUtility
from refil.settings import FromEnv, NonNegativeFloat, PositiveInt, UnitFloat
from refil.types import Mixer, Model, Spec, Utility

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


@dataclass(frozen=True)
class OnPolicyNetOptions(HeadOptions, AgentOptions):
    """Options of the networks of on-policy methods."""

    utility: Literal["attention", "mean_pooling", "max_pooling", "updet"] = "attention"  # Network of the agents
    mixer: Literal["qmix", "vdn"] = "qmix"  # How utilities are combined into a joint value
    shared_targets: bool = False  # Score actions aimed at entities by the target's features, with the same weights for all
    # Add each agent's own embedding to what it sees: otherwise, agents that see the same differ by their attention alone
    own_embedding: Annotated[bool, FromEnv] = False
    layer_norm: bool = True  # Normalize after every dense layer and the GRU (UPDeT has its own normalization)
    memory: PositiveInt = 128  # Size of the GRU's hidden state
    mixing: PositiveInt = 32  # Size of the mixing layer
    positive: Positive = "softmax"  # How mixing weights are made positive
    head_scale: NonNegativeFloat = 0.1  # Factor of the last layer's initial weights, so that Q-values start near zero


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
    last_action_dim = spec.actions if options.last_action else 0
    if not options.recurrent:
        return FeedForwardUtility(encoder, linear(options.size, spec.actions, key_head), last_action_dim)
    return GruUtility(
        encoder=encoder,
        input_proj=linear(options.size, options.memory, key_input),
        gru=gru(options.memory, options.memory, key_gru),
        head=linear(options.memory, spec.actions, key_head),
        last_action_dim=last_action_dim,
    )


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


def on_policy_model(options: OnPolicyNetOptions, spec: Spec, key: PRNGKeyArray) -> Model:
    """Initialize the networks of an on-policy method."""
    if options.shared_targets:
        _check_shared_targets(options, spec)
    if options.own_embedding and (options.utility == "updet" or not options.layer_norm):
        raise RefilError("method.own_embedding needs method.layer_norm, and a method.utility other than updet; turn it off")
    key_utility, key_mixer = jax.random.split(key)
    aggregator = {
        "attention": lambda: attention_factory(options.size, options.heads),
        "mean_pooling": lambda: partial(pooling, options.size, "mean", True),
        "max_pooling": lambda: partial(pooling, options.size, "max", True),
        "updet": lambda: attention_factory(options.size, options.heads),
    }[options.utility]()
    agent = _on_policy_utility(options, spec, aggregator, key_utility)
    return Model(agent, Vdn() if options.mixer == "vdn" else _on_policy_mixer(options, spec, aggregator, key_mixer))


def _check_shared_targets(options: OnPolicyNetOptions, spec: Spec) -> None:
    if not spec.target_actions:
        raise RefilError("method.shared_targets needs actions aimed at entities; this environment has none")
    if options.utility == "updet" or not (options.recurrent and options.layer_norm):
        raise RefilError(
            "method.shared_targets needs method.recurrent, method.layer_norm, and a method.utility other than updet"
        )


def _on_policy_utility(options: OnPolicyNetOptions, spec: Spec, aggregator: LayerFactory, key: PRNGKeyArray) -> Utility:
    last_action_dim = spec.actions if options.last_action else 0
    if options.utility == "updet":
        return updet_utility(spec, UpdetOptions.token, UpdetOptions.token_heads, UpdetOptions.depth, options.last_action, key)
    if not options.layer_norm:
        plain = utility(options, spec, aggregator, key)
        return replace(plain, head=_scaled(plain.head, options.head_scale))
    key_encoder, key_gru, key_head, key_target = (*jax.random.split(key, 3), jax.random.fold_in(key, 3))
    outputs = options.memory if options.recurrent else options.size
    inputs = input_size(spec, options.last_action)
    encoder = normalized_encoder((inputs, options.size, outputs), aggregator, key_encoder)
    if options.own_embedding:
        encoder = replace(encoder, own=linear(options.size, outputs, jax.random.fold_in(key, 4)))
    scores = spec.actions - spec.target_actions + 1 + TARGET_SIZE if options.shared_targets else spec.actions
    head = ExactLinear(_scaled(linear(outputs, scores, key_head), options.head_scale))
    if not options.recurrent:
        return FeedForwardUtility(encoder, head, last_action_dim)
    parts = encoder, None, gru(outputs, outputs, key_gru), NormalizedHead(layer_norm(outputs), head), last_action_dim
    if not options.shared_targets:
        return GruUtility(*parts)
    return TargetedUtility(*parts, normalized_linear(inputs, TARGET_SIZE, key_target), spec.target_actions)


def _on_policy_mixer(options: OnPolicyNetOptions, spec: Spec, aggregator: LayerFactory, key: PRNGKeyArray) -> Mixer:
    if not options.layer_norm:
        plain = MixingOptions("attention", options.mixing, options.positive)
        return mixing_network(plain, options, spec, aggregator, key)
    sizes = input_size(spec, options.last_action), options.size, options.size
    keys = jax.random.split(key, 4)
    by_agent, by_state = (normalized_encoder(sizes, aggregator, each) for each in keys[:2])
    widths = (options.mixing, 2 * options.mixing + 1)
    first, rest = (ExactLinear(linear(options.size, width, k)) for width, k in zip(widths, keys[2:], strict=True))
    return NormalizedQmix(by_agent, first, by_state, rest, options.positive, spec.actions if options.last_action else 0)


def _scaled(head: Any, scale: float) -> Any:
    return jax.tree.map(lambda leaf: scale * leaf, head)
