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

from refil.nn.layer_norm import LayerNorm, layer_norm
from refil.nn.layers import Linear, add_bias, linear, matmul
from refil.nn.mixers import COLUMN_WEIGHTS, Factors, Positive, QmixShared, qmix_value
from refil.nn.utilities import Aggregator, entity_inputs
from refil.types import Observation


class NormalizedLinear(eqx.Module):
    """A dense layer followed by layer normalization and a ReLU."""

    linear: Linear
    norm: LayerNorm

    def __call__(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return self.norm(self.linear(inputs), relu=True)


def normalized_linear(inputs: int, outputs: int, key: PRNGKeyArray) -> NormalizedLinear:
    """Initialize a dense layer with normalization."""
    return NormalizedLinear(linear(inputs, outputs, key), layer_norm(outputs))


class NormalizedEncoder(eqx.Module):
    """Embeds every entity and aggregates those in view, with normalization and a ReLU after each of the two.

    With `own`, a dense layer, what it makes of an agent's own embedding is added to the agent's aggregate.
    """

    embed: NormalizedLinear
    aggregator: Aggregator
    norm: LayerNorm
    own: Linear | None = None

    def __call__(
        self, inputs: Float[Array, "*batch entities features"], views: Bool[Array, "views *batch agents entities"]
    ) -> Float[Array, "views *batch agents outputs"]:
        embedded = self.embed(inputs)
        aggregate = self.aggregator.project(embedded).attend(views)
        if self.own is not None:
            aggregate = aggregate + self.own(embedded[..., : views.shape[-2], :])
        return self.norm(aggregate, relu=True)


def normalized_encoder(
    sizes: tuple[int, int, int], aggregator: Callable[[PRNGKeyArray], Aggregator], key: PRNGKeyArray
) -> NormalizedEncoder:
    """Initialize an encoder with these numbers of inputs, of columns of an embedding, and of outputs."""
    inputs, size, outputs = sizes
    key_embed, key_aggregator, key_output = jax.random.split(key, 3)
    layer = replace(aggregator(key_aggregator), output=linear(size, outputs, key_output))
    return NormalizedEncoder(normalized_linear(inputs, size, key_embed), layer, layer_norm(outputs))


class ExactLinear(eqx.Module):
    """A dense layer that returns float32: around a value of 20, bfloat16 has steps of 0.125."""

    linear: Linear

    def __call__(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return add_bias(matmul(inputs, self.linear.weight, jnp.float32), self.linear.bias.astype(jnp.float32))


class NormalizedHead(eqx.Module):
    """Normalization followed by a dense layer in float32: the head of a utility with memory."""

    norm: LayerNorm
    output: ExactLinear

    def __call__(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return self.output(self.norm(inputs))


class NormalizedQmix(eqx.Module):
    """QMIX with normalized hypernetworks: one for the agents' rows, and one for all that depends on the state alone."""

    by_agent: NormalizedEncoder
    first: ExactLinear
    by_state: NormalizedEncoder
    rest: ExactLinear  # the first layer's bias, the last layer, and its bias
    positive: Positive = eqx.field(static=True)
    last_action_dim: int = eqx.field(static=True)

    def context(
        self, obs: Observation, views: Bool[Array, "factors *batch agents entities"]
    ) -> tuple[Float[Array, "factors *batch agents size"], QmixShared]:
        """Return one row of the first layer for each agent and factor, and the rest."""
        inputs, positive = entity_inputs(obs, self.last_action_dim), COLUMN_WEIGHTS[self.positive]
        first = positive(self.first(self.by_agent(inputs, views)))
        rows = self.rest(self.by_state(inputs, obs.full_view[None])[0])
        rest = jnp.where(obs.agent_present[..., None], rows, 0.0).mean(axis=-2)
        size = first.shape[-1]
        return first, QmixShared(rest[..., :size], positive(rest[..., size:-1]), rest[..., -1])

    def value(
        self, per_factor: Float[Array, "factors *batch agents size"], shared: QmixShared, utilities: Factors
    ) -> Float[Array, "*batch"]:
        """Apply both layers."""
        return qmix_value(per_factor, shared, utilities)
