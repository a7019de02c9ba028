"""Qatten (Attention): the joint value weights agents by attention, with several heads (Yang et al. 2020)."""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.learning.losses import q_learning
from refil.learning.networks import UtilityOptions, attention_factory, input_size, utility
from refil.nn.layers import HIDDEN_LOGIT, Linear, linear
from refil.nn.mixers import Hypernet, hypernet, mean_over_agents
from refil.nn.utilities import entity_inputs
from refil.settings import PositiveInt
from refil.types import Method, MethodInfo, Model, Observation, Spec

INFO = MethodInfo("Qatten (Attention)", "attention", "Qatten")


@dataclass(frozen=True)
class Config(UtilityOptions):
    """Options of Qatten."""

    mixing_heads: PositiveInt = 4  # Heads of the mixing network
    mixing: PositiveInt = 32  # Size of the queries and keys of the mixing network


class QattenContext(eqx.Module):
    """The parameters of the joint value at one timestep."""

    logits: Float[Array, "*batch heads agents"]
    weights: Float[Array, "*batch heads"]
    bias: Float[Array, "*batch"]


class Qatten(eqx.Module):
    """A positively weighted sum of utilities: each head distributes its weight over agents by attention."""

    query: Hypernet
    key: Linear
    weights: Hypernet
    bias: Hypernet
    heads: int = eqx.field(static=True)
    last_action_dim: int = eqx.field(static=True)

    def context(
        self, obs: Observation, views: Bool[Array, "factors *batch agents entities"]
    ) -> tuple[tuple[()], QattenContext]:
        """Return attention logits, head weights and bias; they are the same for all factors."""
        inputs = entity_inputs(obs, self.last_action_dim)
        query = mean_over_agents(self.query.project(inputs), obs)
        query = query.reshape(*query.shape[:-1], self.heads, 1, -1)
        keys = self.key(inputs[..., : obs.visible.shape[-2], :])
        keys = jnp.swapaxes(keys.reshape(*keys.shape[:-1], self.heads, -1), -3, -2)
        logits = (query * keys.astype(jnp.float32)).sum(axis=-1) * keys.shape[-1] ** -0.5
        return (), QattenContext(
            logits=jnp.where(obs.agent_present[..., None, :], logits, HIDDEN_LOGIT),
            weights=jnp.abs(mean_over_agents(self.weights.project(inputs), obs)),
            bias=mean_over_agents(self.bias.project_mean(inputs), obs)[..., 0],
        )

    def value(
        self, per_factor: tuple[()], shared: QattenContext, utilities: Float[Array, "factors *batch agents"]
    ) -> Float[Array, "*batch"]:
        """Return the weighted sum; several factors of an agent share its weight equally."""
        attention = jax.nn.softmax(shared.logits, axis=-1)
        by_head = (attention * utilities.mean(axis=0)[..., None, :]).sum(axis=-1)
        return (shared.weights * by_head).sum(axis=-1) + shared.bias


def build(config: Config, spec: Spec) -> Method:
    """Return the method for an environment of these sizes."""
    return q_learning(partial(init, config, spec), config.discount)


def init(config: Config, spec: Spec, key: PRNGKeyArray) -> Model:
    """Initialize a model."""
    key_utility, *keys = jax.random.split(key, 5)
    aggregator, inputs = attention_factory(config.size, config.heads), input_size(spec, config.last_action)
    all_heads = config.mixing_heads * config.mixing
    mixer = Qatten(
        query=hypernet(inputs, config.size, all_heads, aggregator, keys[0]),
        key=linear(inputs, all_heads, keys[1]),
        weights=hypernet(inputs, config.size, config.mixing_heads, aggregator, keys[2]),
        bias=hypernet(inputs, config.size, config.mixing, aggregator, keys[3]),
        heads=config.mixing_heads,
        last_action_dim=spec.actions if config.last_action else 0,
    )
    return Model(utility(config, spec, aggregator, key_utility), mixer)
