"""Attention weights of a utility: how strongly each head of each agent attends to every entity."""

from typing import Any

from jaxtyping import Array, Float

from refil.nn.attention import Attention
from refil.nn.layers import relu
from refil.nn.utilities import entity_inputs
from refil.types import Observation


def has_attention(utility: Any) -> bool:
    """Return whether a utility attends to entities in one layer, whose weights can be shown."""
    return isinstance(getattr(getattr(utility, "encoder", None), "aggregator", None), Attention)


def attention_weights(utility: Any, obs: Observation) -> Float[Array, "*batch heads agents entities"]:
    """Return the weights of that layer; observations need the last actions."""
    inputs = entity_inputs(obs, utility.last_action_dim)
    return utility.encoder.aggregator.weights(relu(utility.encoder.embed(inputs)), obs.visible)
