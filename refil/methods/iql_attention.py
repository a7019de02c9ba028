"""IQL (Attention): every agent learns from the team's reward as if it were alone (Tan 1993); not in the paper."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from refil.learning import td
from refil.learning.losses import Loss
from refil.learning.networks import UtilityOptions, summed
from refil.types import Episode, Method, MethodInfo, Model, Spec

INFO = MethodInfo("IQL (Attention)", "attention", "IQL")


@dataclass(frozen=True)
class Config(UtilityOptions):
    """Options of IQL."""


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes; the sum that `summed` brings along is not learned and not used."""
    return Method(partial(summed, config, spec), partial(loss, discount=config.discount))


def loss(model: Model, target: Model, episodes: Episode, key: PRNGKeyArray, discount: float) -> Loss:
    """Double Q-learning agent by agent; the mean over agents that are there."""
    obs = episodes.observations
    key_model, key_target = jax.random.split(key)
    q = model.utility.unroll(obs, obs.visible[None], key_model)[0][0]
    best = td.greedy(q, obs.available)[:, 1:]
    following = td.chosen(target.utility.unroll(obs, obs.visible[None], key_target)[0][0][:, 1:], best)
    by_agent = jnp.moveaxis(following, -1, 0)
    rewards, terminated = (jnp.broadcast_to(each, by_agent.shape) for each in (episodes.rewards, episodes.terminated))
    goals = jax.lax.stop_gradient(td.targets(rewards, terminated, by_agent, discount))
    valid = episodes.valid & jnp.moveaxis(obs.agent_present[:, :-1], -1, 0)
    metrics = td.report(jnp.moveaxis(td.chosen(q[:, :-1], episodes.actions), -1, 0), goals, valid)
    return metrics["td_loss"], metrics
