"""QMIX (EMP): agents exchange messages with those they see, three times, before they act (Agarwal et al. 2020)."""

from dataclasses import dataclass
from functools import partial

import jax
from jaxtyping import PRNGKeyArray

from refil.learning.losses import plain
from refil.learning.networks import MixerOptions, attending, qmix, width
from refil.nn.messages import message_encoder
from refil.nn.utilities import scoring_utility
from refil.settings import PositiveInt
from refil.types import Method, MethodInfo, Model, Spec

COMMUNICATES = True  # what an agent does not see can reach it through others

INFO = MethodInfo("QMIX (EMP)", "entity message passing", "QMIX")


@dataclass(frozen=True)
class Config(MixerOptions):
    """Options of QMIX (EMP)."""

    rounds: PositiveInt = 3  # of messages


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return plain(partial(init, config, spec), config.discount)


def init(config: Config, spec: Spec, key: PRNGKeyArray) -> Model:
    """A fresh model: messages in the utility, attention in the mixer."""
    key_encode, key_utility, key_mixer = jax.random.split(key, 3)
    gather = attending(config.size, config.heads)
    encode = message_encoder(width(spec, config.last_action), config.size, config.heads, config.rounds, key_encode)
    utility = scoring_utility(spec, encode, config.recurrent, config.size, config.memory, config.last_action, key_utility)
    return Model(utility, qmix(config, config.size, config.last_action, spec, gather, key_mixer))
