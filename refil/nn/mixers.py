"""Joint values from utilities: a sum (VDN), a weighted sum, and QMIX, the last two with attention hypernetworks."""

from collections.abc import Callable, Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nn.attention import Projected
from refil.nn.layers import HIDDEN_LOGIT, Linear, linear, relu
from refil.nn.pooling import PooledProjection
from refil.nn.utilities import Gather
from refil.types import Observation, entity_inputs

Positive = Literal["softmax", "absolute"]
AnyReading = Projected | PooledProjection
Making = Callable[[PRNGKeyArray], "Hyper"]  # makes a fresh hypernetwork


class Hyper(eqx.Module):
    """A hypernetwork: entities to one row of mixing parameters per agent (paper, supplement).

    The paper averages its output over agents and columns where a vector or a number is wanted. Columns are averaged
    in the weights, before the product. Absent agents count as zeros in averages over agents, as in the authors' code.
    """

    embed: Linear
    gather: Gather
    output: Linear

    def read(self, inputs: Float[Array, "*batch entities features"]) -> AnyReading:
        """One row per agent."""
        return self.gather.project(relu(self.embed(inputs)), self.output)

    def read_mean(self, inputs: Float[Array, "*batch entities features"]) -> AnyReading:
        """One number per agent: the mean of its row."""
        mean = Linear(self.output.weight.mean(axis=1, keepdims=True), self.output.bias.mean(keepdims=True))
        return self.gather.project(relu(self.embed(inputs)), mean)


def hyper(inputs: int, size: int, outputs: int, gather: Callable[[PRNGKeyArray], Gather], key: PRNGKeyArray) -> Hyper:
    """A fresh hypernetwork around a fresh layer of this kind."""
    key_embed, key_gather, key_output = jax.random.split(key, 3)
    return Hyper(linear(inputs, size, key_embed), gather(key_gather), linear(size, outputs, key_output))


def over_agents(reading: AnyReading, obs: Observation) -> Float[Array, "*batch size"]:
    """The mean over agent slots of what is gathered from everything, absent slots counting as zero."""
    gathered = reading.attend(obs.full_view[None])[0].astype(jnp.float32)
    return jnp.where(obs.agent_present[..., None], gathered, 0.0).mean(axis=-2)


class Vdn(eqx.Module):
    """The sum of all utilities (Sunehag et al. 2018)."""

    def read(self, obs: Observation, views: Bool[Array, "factors *batch agents entities"]) -> None:
        """Nothing."""

    def values(
        self, read: None, utilities: Float[Array, "factors *batch agents"], made_of: Sequence[slice]
    ) -> Float[Array, "values ..."]:
        """Absent agents have utility zero."""
        return jnp.stack([utilities[factors].sum(axis=(0, -1)) for factors in made_of])


class Weighing(eqx.Module):
    """What a weighted sum takes from an instant: weights as they are made, who is there, and the state's value."""

    raw: Float[Array, "factors *batch agents"]
    agent_present: Bool[Array, "*batch agents"]
    bias: Float[Array, "*batch"]


class LinearQmix(eqx.Module):
    """A weighted sum of all factors plus a state value; the weights are positive (the authors' choice for group matching)."""

    weights: Hyper
    bias: Hyper
    positive: Positive = eqx.field(static=True)
    last_action_dim: int = eqx.field(static=True)

    def read(self, obs: Observation, views: Bool[Array, "factors *batch agents entities"]) -> Weighing:
        """One weight for each agent and factor."""
        inputs = entity_inputs(obs, self.last_action_dim)
        raw = self.weights.read_mean(inputs).attend(views)[..., 0].astype(jnp.float32)
        return Weighing(raw, obs.agent_present, over_agents(self.bias.read_mean(inputs), obs)[..., 0])

    def values(
        self, read: Weighing, utilities: Float[Array, "factors *batch agents"], made_of: Sequence[slice]
    ) -> Float[Array, "values ..."]:
        """Weights compete over all factors of all agents present."""
        positive = AMONG_AGENTS[self.positive]
        sums = [(positive(read.raw[factors], read.agent_present) * utilities[factors]).sum(axis=(0, -1)) for factors in made_of]
        return jnp.stack(sums) + read.bias


class Layers(eqx.Module):
    """An instant's two mixing layers, and their biases."""

    first: Float[Array, "factors *batch agents size"]
    first_bias: Float[Array, "*batch size"]
    last: Float[Array, "*batch size"]
    last_bias: Float[Array, "*batch"]


class AttentionQmix(eqx.Module):
    """QMIX (Rashid et al. 2018) with attention hypernetworks: two layers whose weights are positive."""

    first: Hyper
    first_bias: Hyper
    last: Hyper
    last_bias: Hyper
    positive: Positive = eqx.field(static=True)
    last_action_dim: int = eqx.field(static=True)

    def read(self, obs: Observation, views: Bool[Array, "factors *batch agents entities"]) -> Layers:
        """One row of the first layer for each agent and factor."""
        inputs, positive = entity_inputs(obs, self.last_action_dim), AMONG_COLUMNS[self.positive]
        return Layers(
            first=positive(self.first.read(inputs).attend(views).astype(jnp.float32)),
            first_bias=over_agents(self.first_bias.read(inputs), obs),
            last=positive(over_agents(self.last.read(inputs), obs)),
            last_bias=over_agents(self.last_bias.read_mean(inputs), obs)[..., 0],
        )

    def values(
        self, read: Layers, utilities: Float[Array, "factors *batch agents"], made_of: Sequence[slice]
    ) -> Float[Array, "values ..."]:
        """Absent agents have utility zero, so that their weights do not matter."""
        mixed = utilities[..., None] * read.first
        hidden = jax.nn.elu(jnp.stack([mixed[factors].sum(axis=(0, -2)) for factors in made_of]) + read.first_bias)
        return (hidden * read.last).sum(axis=-1) + read.last_bias


def share_among_agents(
    raw: Float[Array, "factors *batch agents"], acting: Bool[Array, "*batch agents"]
) -> Float[Array, "factors *batch agents"]:
    """Softmax over all factors of all agents present."""
    return jax.nn.softmax(jnp.where(acting, raw, HIDDEN_LOGIT), axis=(0, -1)) * acting


def distance_from_zero(
    raw: Float[Array, "factors *batch agents"], acting: Bool[Array, "*batch agents"]
) -> Float[Array, "factors *batch agents"]:
    """Absolute values; absent agents have utility zero, so that their weights do not matter."""
    return jnp.abs(raw)


AMONG_AGENTS: dict[Positive, Callable[[Array, Array], Array]] = {
    "softmax": share_among_agents,
    "absolute": distance_from_zero,
}
AMONG_COLUMNS: dict[Positive, Callable[[Array], Array]] = {"softmax": jax.nn.softmax, "absolute": jnp.abs}


def attention_qmix(make: Making, positive: Positive, last_action_dim: int, key: PRNGKeyArray) -> AttentionQmix:
    """A fresh attention QMIX mixer."""
    return AttentionQmix(*map(make, jax.random.split(key, 4)), positive, last_action_dim)


def linear_qmix(make: Making, positive: Positive, last_action_dim: int, key: PRNGKeyArray) -> LinearQmix:
    """A fresh linear mixer; the columns that its hypernetworks make are averaged into one."""
    return LinearQmix(*map(make, jax.random.split(key, 2)), positive, last_action_dim)


MIXERS = {"attention": attention_qmix, "linear": linear_qmix}
