"""QTRAN (Attention): learns an unrestricted joint value, and a sum of utilities that agrees with it (Son et al. 2019)."""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from refil.learning import td
from refil.learning.networks import UtilityOptions, attention_factory, entity_encoder, input_size, utility
from refil.learning.td import Loss
from refil.nn.layers import Mlp, mlp
from refil.nn.utilities import EntityEncoder, entity_inputs, unroll
from refil.rollout import greedy
from refil.settings import NonNegativeFloat, PositiveInt
from refil.types import EpisodeBatch, Method, MethodInfo, Observation, Spec, Utility

INFO = MethodInfo("QTRAN (Attention)", "attention", "QTRAN")


@dataclass(frozen=True)
class Config(UtilityOptions):
    """Options of QTRAN."""

    joint: PositiveInt = 64  # Size of the layers of the joint value and the state value
    optimal_weight: NonNegativeFloat = 1.0  # Weight of the loss on greedy actions
    other_weight: NonNegativeFloat = 0.1  # Weight of the loss on the actions taken


class QtranModel(eqx.Module):
    """Utilities to act with, the joint value of a state and all actions, and the state value that a sum cannot express."""

    encode_joint: EntityEncoder
    encode_action: Mlp
    joint: Mlp
    encode_state: EntityEncoder
    state: Mlp
    utility: Utility
    last_action_dim: int = eqx.field(static=True)

    def joint_value(
        self, obs: Observation, hidden: Float[Array, "*batch agents size"], actions: Int[Array, "*batch agents"]
    ) -> Float[Array, "*batch"]:
        """Return the value of a joint action."""
        one_hot = jax.nn.one_hot(actions, obs.available.shape[-1], dtype=hidden.dtype)
        encoded = self.encode_action(jnp.concatenate([hidden, one_hot], axis=-1))
        team = jnp.where(obs.agent_present[..., None], encoded, 0.0).sum(axis=-2)
        state = self._state_features(self.encode_joint, obs)
        return self.joint(jnp.concatenate([state, team], axis=-1))[..., 0].astype(jnp.float32)

    def state_value(self, obs: Observation) -> Float[Array, "*batch"]:
        """Return the part of the joint value that the sum of utilities does not express."""
        return self.state(self._state_features(self.encode_state, obs))[..., 0].astype(jnp.float32)

    def _state_features(self, encoder: EntityEncoder, obs: Observation) -> Float[Array, "*batch size"]:
        rows = encoder(entity_inputs(obs, self.last_action_dim), obs.full_view[None])[0]
        return jnp.where(obs.agent_present[..., None], rows, 0.0).mean(axis=-2)


def build(config: Config, spec: Spec) -> Method:
    """Return the method for an environment of these sizes."""
    return Method(partial(init, config, spec), partial(loss, config=config), shareable=True)


def init(config: Config, spec: Spec, key: PRNGKeyArray) -> QtranModel:
    """Initialize a model."""
    keys = jax.random.split(key, 6)
    aggregator, inputs = attention_factory(config.size, config.heads), input_size(spec, config.last_action)
    action_size = (config.memory if config.recurrent else config.size) + spec.actions
    return QtranModel(
        encode_joint=entity_encoder(inputs, config.size, aggregator, keys[0]),
        encode_action=mlp((action_size, action_size, action_size), keys[1]),
        joint=mlp((config.size + action_size, config.joint, config.joint, 1), keys[2]),
        encode_state=entity_encoder(inputs, config.size, aggregator, keys[3]),
        state=mlp((config.size, config.joint, config.joint, 1), keys[4]),
        utility=utility(config, spec, aggregator, keys[5]),
        last_action_dim=spec.actions if config.last_action else 0,
    )


def loss(model: QtranModel, target: QtranModel, batch: EpisodeBatch, key: PRNGKeyArray, config: Config) -> Loss:
    """Return the TD loss of the joint value, plus the losses that tie the sum of utilities to it.

    The sum must equal the joint value for greedy actions, and must not be smaller for any other.
    """
    obs = batch.observations
    now, later = (jax.tree.map(lambda leaf, part=part: leaf[:, part], obs) for part in (slice(None, -1), slice(1, None)))
    q, hidden = unroll(model.utility, batch, features=True)
    _, target_hidden = unroll(target.utility, batch, features=True)
    best = greedy(q, obs.available)
    next_values = target.joint_value(later, target_hidden[:, 1:], best[:, 1:])
    td_targets = td.targets(batch.rewards, batch.terminated, next_values, config.discount)
    joint = model.joint_value(now, hidden[:, :-1], batch.actions)
    td_loss, metrics = td.loss(joint, td_targets, batch.valid)

    fixed = jax.lax.stop_gradient
    joint_best = model.joint_value(now, hidden[:, :-1], best[:, :-1])
    state_value = model.state_value(now)
    sum_best = td.action_values(q[:, :-1], best[:, :-1]).sum(axis=-1) + state_value
    optimal_loss = td.squared_error(sum_best, fixed(joint_best), batch.valid)
    sum_taken = td.select_q(q, batch).sum(axis=-1) + state_value
    other_loss = td.squared_error(jnp.minimum(sum_taken - fixed(joint), 0.0), jnp.zeros_like(joint), batch.valid)
    total = td_loss + config.optimal_weight * optimal_loss + config.other_weight * other_loss
    return total, metrics | {"optimal_loss": optimal_loss, "other_loss": other_loss}
