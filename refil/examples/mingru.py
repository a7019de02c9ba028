"""REFIL with a minGRU (Feng et al. 2024) as the memory of the agents: an example of a utility."""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.learning.losses import ImaginedOptions, factorized_q_learning, use_random
from refil.learning.networks import (
    HeadOptions,
    MixingOptions,
    NetOptions,
    attention_factory,
    entity_encoder,
    input_size,
    mixing_network,
)
from refil.nn.layers import Linear, linear
from refil.nn.utilities import EntityEncoder, entity_inputs
from refil.settings import PositiveInt
from refil.types import Method, Model, Observation, Spec


@dataclass(frozen=True)
class Config(ImaginedOptions, MixingOptions, HeadOptions, NetOptions):
    """Options of the method: `--method.size`, `--method.heads` and so on on the command line."""

    memory: PositiveInt = 64  # Size of the minGRU's state


class MinGruUtility(eqx.Module):
    """Attention over entities, a minGRU, and a linear head."""

    encoder: EntityEncoder
    gate: Linear
    candidate: Linear
    head: Linear
    last_action_dim: int = eqx.field(static=True)  # 0 or the number of actions

    def initial_state(self, *batch: int) -> Float[Array, "*batch hidden"]:
        """Return the hidden state before the first timestep; the last batch axis is the agents."""
        return jnp.zeros((*batch, self.gate.bias.shape[0]))

    def encode(self, obs: Observation, views: Bool[Array, "views *batch agents entities"]) -> Array:
        """Encode what each agent sees, at all timesteps and through all views at once."""
        return jax.nn.relu(self.encoder(entity_inputs(obs, self.last_action_dim), views))

    def recur(self, state: Array, inputs: Array) -> tuple[Array, Array]:
        """Advance by one timestep; return the next state, and the features to score."""
        gate = jax.nn.sigmoid(self.gate(inputs))
        state = (1 - gate) * state + gate * self.candidate(inputs)
        return state, state

    def q_values(self, features: Array, obs: Observation) -> Array:
        """Score every action."""
        return self.head(features)


def build(config: Config, spec: Spec) -> Method:
    """Return the method."""
    return factorized_q_learning(partial(init, config, spec), config.discount, use_random, config)


def init(config: Config, spec: Spec, key: PRNGKeyArray) -> Model:
    """Initialize a model."""
    keys = jax.random.split(key, 5)
    attention = attention_factory(config.size, config.heads)
    utility = MinGruUtility(
        encoder=entity_encoder(input_size(spec, config.last_action), config.size, attention, keys[0]),
        gate=linear(config.size, config.memory, keys[1]),
        candidate=linear(config.size, config.memory, keys[2]),
        head=linear(config.memory, spec.actions, keys[3]),
        last_action_dim=spec.actions if config.last_action else 0,
    )
    return Model(utility, mixing_network(config, config, spec, attention, keys[4]))
