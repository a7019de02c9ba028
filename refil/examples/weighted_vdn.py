"""REFIL whose joint value is a weighted sum, with one positive weight per agent and factor: an example of a mixing network."""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.learning.losses import ImaginedOptions, factorized_q_learning, use_random
from refil.learning.networks import UtilityOptions, attention_factory, entity_encoder, input_size, utility
from refil.nn.layers import Linear, linear
from refil.nn.utilities import EntityEncoder, entity_inputs
from refil.types import Method, Model, Observation, Spec


@dataclass(frozen=True)
class Config(ImaginedOptions, UtilityOptions):
    """Options of the method."""


class WeightedVdn(eqx.Module):
    """A sum of utilities; the weight of an agent depends on the entities in its view."""

    encoder: EntityEncoder
    weight: Linear
    last_action_dim: int = eqx.field(static=True)

    def context(self, obs: Observation, views: Bool[Array, "factors *batch agents entities"]) -> tuple[Array, tuple[()]]:
        """Return what does not depend on utilities: arrays with a factor axis first, and arrays that all factors share."""
        features = jax.nn.relu(self.encoder(entity_inputs(obs, self.last_action_dim), views))
        return jax.nn.softplus(self.weight(features)[..., 0]).astype(jnp.float32), ()

    def value(self, per_factor: Array, shared: tuple[()], utilities: Float[Array, "factors *batch agents"]) -> Array:
        """Return one joint value from its factors; absent agents have utility 0."""
        return (per_factor * utilities).sum(axis=(0, -1))


def build(config: Config, spec: Spec) -> Method:
    """Return the method."""
    return factorized_q_learning(partial(init, config, spec), config.discount, use_random, config)


def init(config: Config, spec: Spec, key: PRNGKeyArray) -> Model:
    """Initialize a model."""
    key_utility, key_encoder, key_weight = jax.random.split(key, 3)
    attention = attention_factory(config.size, config.heads)
    mixer = WeightedVdn(
        encoder=entity_encoder(input_size(spec, config.last_action), config.size, attention, key_encoder),
        weight=linear(config.size, 1, key_weight),
        last_action_dim=spec.actions if config.last_action else 0,
    )
    return Model(utility(config, spec, attention, key_utility), mixer)
