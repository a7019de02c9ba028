"""Networks of on-policy methods, and their options."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import jax
from jaxtyping import PRNGKeyArray

from refil.errors import RefilError
from refil.learning.networks import (
    AgentOptions,
    HeadOptions,
    LayerFactory,
    MixingOptions,
    UpdetOptions,
    attention_factory,
    head_outputs,
    input_size,
    mixing_network,
    utility,
    with_targets,
)
from refil.nn.gru import gru
from refil.nn.layer_norm import layer_norm
from refil.nn.layers import linear
from refil.nn.mixers import Positive, Vdn
from refil.nn.normalized import ExactLinear, NormalizedHead, NormalizedQmix, normalized_encoder
from refil.nn.pooling import pooling
from refil.nn.transformer import updet_utility
from refil.nn.utilities import FeedForwardUtility, GruUtility
from refil.settings import FromEnv, NonNegativeFloat, PositiveInt
from refil.types import Mixer, Model, Spec, Utility


@dataclass(frozen=True)
class OnPolicyNetOptions(HeadOptions, AgentOptions):
    """Options of the networks of on-policy methods."""

    utility: Literal["attention", "mean_pooling", "max_pooling", "updet"] = "attention"  # Network of the agents
    mixer: Literal["qmix", "vdn"] = "qmix"  # How utilities are combined into a joint value
    # Add each agent's own embedding to what it sees: otherwise, agents that see the same differ by their attention alone
    own_embedding: Annotated[bool, FromEnv] = False
    layer_norm: bool = True  # Normalize after every dense layer and the GRU (UPDeT has its own normalization)
    memory: PositiveInt = 128  # Size of the GRU's hidden state
    mixing: PositiveInt = 32  # Size of the mixing layer
    positive: Positive = "softmax"  # How mixing weights are made positive
    head_scale: NonNegativeFloat = 0.1  # Factor of the last layer's initial weights, so that Q-values start near zero


def on_policy_model(options: OnPolicyNetOptions, spec: Spec, key: PRNGKeyArray) -> Model:
    """Initialize the networks of an on-policy method."""
    if options.shared_targets and options.utility == "updet":
        raise RefilError("method.shared_targets needs a method.utility other than updet")
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
    head = ExactLinear(_scaled(linear(outputs, head_outputs(options, spec), key_head), options.head_scale))
    if not options.recurrent:
        return FeedForwardUtility(encoder, head, last_action_dim)
    parts = encoder, None, gru(outputs, outputs, key_gru), NormalizedHead(layer_norm(outputs), head), last_action_dim
    return with_targets(GruUtility(*parts), options, spec, key_target)


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
