"""IQL (Attention): every agent learns from the team's reward on its own (Tan 1993); not in the paper."""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray

from refil.learning import td
from refil.learning.networks import UtilityOptions, attention_factory, utility
from refil.learning.td import Loss
from refil.nn.utilities import unroll
from refil.types import EpisodeBatch, Method, MethodInfo, Spec, Utility

INFO = MethodInfo("IQL (Attention)", "attention", "IQL")


@dataclass(frozen=True)
class Config(UtilityOptions):
    """Options of IQL."""


class IqlModel(eqx.Module):
    """Independent learners have no mixing network."""

    utility: Utility


def build(config: Config, spec: Spec) -> Method:
    """Return the method for an environment of these sizes."""
    return Method(partial(init, config, spec), partial(loss, discount=config.discount), shareable=True)


def init(config: UtilityOptions, spec: Spec, key: PRNGKeyArray) -> IqlModel:
    """Initialize a model."""
    return IqlModel(utility(config, spec, attention_factory(config.size, config.heads), key))


def loss(model: IqlModel, target_model: IqlModel, batch: EpisodeBatch, key: PRNGKeyArray, discount: float) -> Loss:
    """Return the loss of double Q-learning per agent, averaged over present agents."""
    key, target_key = jax.random.split(key)
    q = unroll(model.utility, batch, key=key)  # [batch, time + 1, agents, actions]
    next_q = td.double_q(q, unroll(target_model.utility, batch, key=target_key), batch)
    td_targets = td.targets(batch.rewards[..., None], batch.terminated[..., None], next_q, discount)
    return td.loss(td.select_q(q, batch), td_targets, batch.valid_agents)
