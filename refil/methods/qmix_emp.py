"""QMIX (EMP): agents exchange messages with the agents they see, three times, before acting (Agarwal et al. 2020)."""

from dataclasses import dataclass
from functools import partial

import jax
from jaxtyping import PRNGKeyArray

from refil.learning.losses import q_learning
from refil.learning.networks import MixerOptions, attention_factory, input_size, mixing_network, utility_on
from refil.nn.messages import message_encoder
from refil.settings import PositiveInt
from refil.types import Method, MethodInfo, Model, Spec

INFO = MethodInfo("QMIX (EMP)", "entity message passing", "QMIX")
COMMUNICATES = True  # messages can carry what the receiver does not see itself


@dataclass(frozen=True)
class Config(MixerOptions):
    """Options of QMIX (EMP)."""

    rounds: PositiveInt = 3  # Rounds of messages


def build(config: Config, spec: Spec) -> Method:
    """Return the method for an environment of these sizes."""
    return q_learning(partial(init, config, spec), config.discount)


def init(config: Config, spec: Spec, key: PRNGKeyArray) -> Model:
    """Initialize a model: messages in the utility, attention in the mixing network."""
    key_encoder, key_utility, key_mixer = jax.random.split(key, 3)
    encoder = message_encoder(input_size(spec, config.last_action), config.size, config.heads, config.rounds, key_encoder)
    aggregator = attention_factory(config.size, config.heads)
    mixer = mixing_network(config, config, spec, aggregator, key_mixer)
    return Model(utility_on(encoder, config, spec, key_utility), mixer)
