"""Networks with layer normalization, which on-policy Q-learning needs in place of a replay buffer (Gallici et al. 2025).

Each dense layer and the GRU are followed by a normalization. It works on one entity or agent at a time: batch normalization
would mix the padding of small teams into its statistics.
"""

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nn.gru import Gru
from refil.nn.layers import LayerNorm, Linear, layer_norm, linear, relu
from refil.nn.mixers import COLUMN_WEIGHTS, Factors, Positive, QmixShared, qmix_value
from refil.nn.utilities import Aggregator, entity_inputs
from refil.types import Observation


class NormalizedLinear(eqx.Module):
    """A dense layer followed by layer normalization."""

    linear: Linear
    norm: LayerNorm

    def __call__(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return self.norm(self.linear(inputs))


def normalized_linear(inputs: int, outputs: int, key: PRNGKeyArray) -> NormalizedLinear:
    """Initialize a dense layer with normalization."""
    return NormalizedLinear(linear(inputs, outputs, key), layer_norm(outputs))


class NormalizedEncoder(eqx.Module):
    """Embeds every entity and aggregates those in view, with normalization after the embedding and after the aggregate."""

    embed: NormalizedLinear
    aggregator: Aggregator
    norm: LayerNorm

    def __call__(
        self, inputs: Float[Array, "*batch entities features"], views: Bool[Array, "views *batch agents entities"]
    ) -> Float[Array, "views *batch agents outputs"]:
        return relu(self.norm(self.aggregator.project(relu(self.embed(inputs))).attend(views)))


def normalized_encoder(
    sizes: tuple[int, int, int], aggregator: Callable[[PRNGKeyArray], Aggregator], key: PRNGKeyArray
) -> NormalizedEncoder:
    """Initialize an encoder with these numbers of inputs, of columns of an embedding, and of outputs."""
    inputs, size, outputs = sizes
    key_embed, key_aggregator, key_output = jax.random.split(key, 3)
    layer = replace(aggregator(key_aggregator), output=linear(size, outputs, key_output))
    return NormalizedEncoder(normalized_linear(inputs, size, key_embed), layer, layer_norm(outputs))


def exact(layer: Linear, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
    """Apply a dense layer in float32: around a value of 20, bfloat16 has steps of 0.125."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), layer)(inputs.astype(jnp.float32))


class NormalizedFeedForwardUtility(eqx.Module):
    """Encodes the entities in view and scores actions, without memory."""

    encoder: NormalizedEncoder
    head: Linear
    last_action_dim: int = eqx.field(static=True)

    def encode(
        self, obs: Observation, views: Bool[Array, "views *batch agents entities"]
    ) -> Float[Array, "views *batch agents size"]:
        """Return the features to score."""
        return self.encoder(entity_inputs(obs, self.last_action_dim), views)

    def q_values(
        self, features: Float[Array, "views *batch agents size"], obs: Observation
    ) -> Float[Array, "views *batch agents actions"]:
        """Score every action."""
        return exact(self.head, features)


class NormalizedGruUtility(eqx.Module):
    """Encodes the entities in view, remembers with a GRU and scores actions."""

    encoder: NormalizedEncoder
    gru: Gru
    norm: LayerNorm
    head: Linear
    last_action_dim: int = eqx.field(static=True)

    def initial_state(self, *batch: int) -> Float[Array, "*batch hidden"]:
        """Return the hidden state before the first timestep."""
        return jnp.zeros((*batch, len(self.norm.scale)))

    def encode(
        self, obs: Observation, views: Bool[Array, "views *batch agents entities"]
    ) -> Float[Array, "views *batch agents hidden"]:
        """Return the inputs of the GRU."""
        return self.encoder(entity_inputs(obs, self.last_action_dim), views)

    def recur(self, state: Array, inputs: Array) -> tuple[Array, Array]:
        """Return the next hidden state, twice: it is also what is scored."""
        hidden = self.gru(self.gru.input_proj(inputs), state)
        return hidden, hidden

    def project_inputs(self, inputs: Float[Array, "time *batch hidden"]) -> Float[Array, "time *batch gates"]:
        """Return the inputs' part of all gates."""
        return self.gru.project_inputs(inputs)

    def recur_all(
        self, gates: Float[Array, "time *batch gates"], is_first: Bool[Array, "time ..."], start: Array | None = None
    ) -> Float[Array, "time *batch hidden"]:
        """Return the hidden state after every timestep."""
        return self.gru.unroll(gates, is_first, start)

    def q_values(
        self, features: Float[Array, "views *batch agents hidden"], obs: Observation
    ) -> Float[Array, "views *batch agents actions"]:
        """Score every action."""
        return exact(self.head, self.norm(features))


class NormalizedQmix(eqx.Module):
    """QMIX with normalized hypernetworks: one for the agents' rows, and one for all that depends on the state alone."""

    by_agent: NormalizedEncoder
    first: Linear
    by_state: NormalizedEncoder
    rest: Linear  # the first layer's bias, the last layer, and its bias
    positive: Positive = eqx.field(static=True)
    last_action_dim: int = eqx.field(static=True)

    def context(
        self, obs: Observation, views: Bool[Array, "factors *batch agents entities"]
    ) -> tuple[Float[Array, "factors *batch agents size"], QmixShared]:
        """Return one row of the first layer for each agent and factor, and the rest."""
        inputs, positive = entity_inputs(obs, self.last_action_dim), COLUMN_WEIGHTS[self.positive]
        first = positive(exact(self.first, self.by_agent(inputs, views)))
        rows = exact(self.rest, self.by_state(inputs, obs.full_view[None])[0])
        rest = jnp.where(obs.agent_present[..., None], rows, 0.0).mean(axis=-2)
        size = first.shape[-1]
        return first, QmixShared(rest[..., :size], positive(rest[..., size:-1]), rest[..., -1])

    def value(
        self, per_factor: Float[Array, "factors *batch agents size"], shared: QmixShared, utilities: Factors
    ) -> Float[Array, "*batch"]:
        """Apply both layers."""
        return qmix_value(per_factor, shared, utilities)
