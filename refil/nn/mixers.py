"""Mixing networks: the joint value as a sum (VDN), as a weighted sum, and as QMIX; the last two with set hypernetworks."""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nn.attention import Projected
from refil.nn.layers import HIDDEN_LOGIT, Linear, linear, relu
from refil.nn.pooling import PooledProjection
from refil.nn.utilities import Aggregator, entity_inputs
from refil.types import Observation

Positive = Literal["softmax", "absolute"]
AnyProjection = Projected | PooledProjection
HypernetFactory = Callable[[PRNGKeyArray], "Hypernet"]
Factors = Float[Array, "factors *batch agents"]


class Hypernet(eqx.Module):
    """A hypernetwork: maps entities to one row of mixing parameters per agent (paper, supplement).

    Where a vector or a scalar is needed, the paper averages the output over agents and columns. Columns are averaged
    in the weights, before the matrix product. Absent agents count as zeros in averages over agents, as in the authors' code.
    """

    embed: Linear
    aggregator: Aggregator
    output: Linear

    def project(self, inputs: Float[Array, "*batch entities features"]) -> AnyProjection:
        """Prepare one row per agent."""
        return self.aggregator.project(relu(self.embed(inputs)), self.output)

    def project_mean(self, inputs: Float[Array, "*batch entities features"]) -> AnyProjection:
        """Prepare one number per agent: the mean of its row."""
        mean = Linear(self.output.weight.mean(axis=1, keepdims=True), self.output.bias.mean(keepdims=True))
        return self.aggregator.project(relu(self.embed(inputs)), mean)


def hypernet(
    inputs: int, size: int, outputs: int, aggregator: Callable[[PRNGKeyArray], Aggregator], key: PRNGKeyArray
) -> Hypernet:
    """Initialize a hypernetwork with a new aggregator."""
    key_embed, key_aggregator, key_output = jax.random.split(key, 3)
    return Hypernet(linear(inputs, size, key_embed), aggregator(key_aggregator), linear(size, outputs, key_output))


def mean_over_agents(projection: AnyProjection, obs: Observation) -> Float[Array, "*batch size"]:
    """Return the mean of all agents' rows under the full view; absent agents count as zeros."""
    rows = projection.attend(obs.full_view[None])[0].astype(jnp.float32)
    return jnp.where(obs.agent_present[..., None], rows, 0.0).mean(axis=-2)


class Vdn(eqx.Module):
    """The sum of all utilities (Sunehag et al. 2018)."""

    def context(self, obs: Observation, views: Bool[Array, "factors *batch agents entities"]) -> tuple[tuple[()], tuple[()]]:
        """Return nothing, since a sum has no parameters."""
        return (), ()

    def value(self, per_factor: tuple[()], shared: tuple[()], utilities: Factors) -> Float[Array, "*batch"]:
        """Return the sum; absent agents have utility zero."""
        return utilities.sum(axis=(0, -1))


class LinearShared(eqx.Module):
    """The parameters of a weighted sum that all factors share."""

    agent_present: Bool[Array, "*batch agents"]
    bias: Float[Array, "*batch"]


class LinearQmix(eqx.Module):
    """A sum of all factors with positive weights, plus a state value (the authors' choice for group matching)."""

    weights: Hypernet
    bias: Hypernet
    positive: Positive = eqx.field(static=True)
    last_action_dim: int = eqx.field(static=True)

    def context(self, obs: Observation, views: Bool[Array, "factors *batch agents entities"]) -> tuple[Factors, LinearShared]:
        """Return one unnormalized weight for each agent and factor."""
        inputs = entity_inputs(obs, self.last_action_dim)
        raw = self.weights.project_mean(inputs).attend(views)[..., 0].astype(jnp.float32)
        return raw, LinearShared(obs.agent_present, mean_over_agents(self.bias.project_mean(inputs), obs)[..., 0])

    def value(self, per_factor: Factors, shared: LinearShared, utilities: Factors) -> Float[Array, "*batch"]:
        """Return the weighted sum; a softmax normalizes the weights of all factors of all present agents together."""
        weights = _AGENT_WEIGHTS[self.positive](per_factor, shared.agent_present)
        return (weights * utilities).sum(axis=(0, -1)) + shared.bias


class QmixShared(eqx.Module):
    """The parameters of QMIX that all factors share."""

    first_bias: Float[Array, "*batch size"]
    last: Float[Array, "*batch size"]
    last_bias: Float[Array, "*batch"]


class Qmix(eqx.Module):
    """QMIX (Rashid et al. 2018): two layers with positive weights, which hypernetworks produce from the entities."""

    first: Hypernet
    first_bias: Hypernet
    last: Hypernet
    last_bias: Hypernet
    positive: Positive = eqx.field(static=True)
    last_action_dim: int = eqx.field(static=True)

    def context(
        self, obs: Observation, views: Bool[Array, "factors *batch agents entities"]
    ) -> tuple[Float[Array, "factors *batch agents size"], QmixShared]:
        """Return one row of the first layer for each agent and factor, and the rest."""
        inputs, positive = entity_inputs(obs, self.last_action_dim), COLUMN_WEIGHTS[self.positive]
        first = positive(self.first.project(inputs).attend(views).astype(jnp.float32))
        return first, QmixShared(
            first_bias=mean_over_agents(self.first_bias.project(inputs), obs),
            last=positive(mean_over_agents(self.last.project(inputs), obs)),
            last_bias=mean_over_agents(self.last_bias.project_mean(inputs), obs)[..., 0],
        )

    def value(
        self, per_factor: Float[Array, "factors *batch agents size"], shared: QmixShared, utilities: Factors
    ) -> Float[Array, "*batch"]:
        """Apply both layers."""
        return qmix_value(per_factor, shared, utilities)


def qmix_value(
    first: Float[Array, "factors *batch agents size"], shared: QmixShared, utilities: Factors
) -> Float[Array, "*batch"]:
    """Apply both layers of QMIX; absent agents have utility zero, so that their weights have no effect."""
    hidden = jax.nn.elu((utilities[..., None] * first).sum(axis=(0, -2)) + shared.first_bias)
    return (hidden * shared.last).sum(axis=-1) + shared.last_bias


def _softmax_over_agents(raw: Factors, agent_present: Bool[Array, "*batch agents"]) -> Factors:
    return jax.nn.softmax(jnp.where(agent_present, raw, HIDDEN_LOGIT), axis=(0, -1)) * agent_present


def _absolute(raw: Factors, agent_present: Bool[Array, "*batch agents"]) -> Factors:
    return jnp.abs(raw)  # absent agents have utility zero, so that their weights have no effect


_AGENT_WEIGHTS: dict[Positive, Callable[[Array, Array], Array]] = {"softmax": _softmax_over_agents, "absolute": _absolute}
COLUMN_WEIGHTS: dict[Positive, Callable[[Array], Array]] = {"softmax": jax.nn.softmax, "absolute": jnp.abs}


def qmix(make: HypernetFactory, positive: Positive, last_action_dim: int, key: PRNGKeyArray) -> Qmix:
    """Initialize a QMIX mixing network."""
    first, first_bias, last, last_bias = map(make, jax.random.split(key, 4))
    return Qmix(first, first_bias, last, last_bias, positive, last_action_dim)


def linear_qmix(make: HypernetFactory, positive: Positive, last_action_dim: int, key: PRNGKeyArray) -> LinearQmix:
    """Initialize a weighted sum; the columns that its hypernetworks produce are averaged into one."""
    weights, bias = map(make, jax.random.split(key, 2))
    return LinearQmix(weights, bias, positive, last_action_dim)


MIXERS = {"attention": qmix, "linear": linear_qmix}
