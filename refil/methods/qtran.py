"""QTRAN (Attention): a free joint value is learned, and the sum of utilities is held to agree with it (Son et al. 2019)."""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from refil.learning import td
from refil.learning.losses import Loss
from refil.learning.networks import UtilityOptions, attending, utility, width
from refil.nn.layers import Mlp, mlp
from refil.nn.mixers import Vdn
from refil.nn.utilities import EntityEncoder, entity_encoder
from refil.settings import NonNegativeFloat, PositiveInt
from refil.types import Episode, Method, MethodInfo, Model, Observation, Spec, entity_inputs

INFO = MethodInfo("QTRAN (Attention)", "attention", "QTRAN")


@dataclass(frozen=True)
class Config(UtilityOptions):
    """Options of QTRAN."""

    joint: PositiveInt = 64  # width of the joint value's and the state value's layers
    optimal_weight: NonNegativeFloat = 1.0  # of the loss on the best actions
    other_weight: NonNegativeFloat = 0.1  # of the loss on the actions taken


class Qtran(eqx.Module):
    """The joint value of a state and all agents' actions, and the state value that makes up for what a sum cannot say.

    As a mixer it is the sum of utilities, as VDN is, which is what agents act on.
    """

    encode_joint: EntityEncoder
    encode_action: Mlp
    joint: Mlp
    encode_state: EntityEncoder
    state: Mlp
    last_action_dim: int = eqx.field(static=True)

    read, values = Vdn.read, Vdn.values

    def summary(self, encode: EntityEncoder, obs: Observation) -> Float[Array, "*batch size"]:
        """The state: what agents gather from everything, averaged over slots, absent ones counting as zero."""
        gathered = encode(entity_inputs(obs, self.last_action_dim), obs.full_view[None])[0]
        return jnp.where(obs.agent_present[..., None], gathered, 0.0).mean(axis=-2)

    def joint_value(
        self,
        obs: Observation,
        hidden: Float[Array, "*batch agents size"],
        actions: Int[Array, "*batch agents"],
    ) -> Float[Array, "*batch"]:
        """What these actions of all agents are worth together."""
        done = jax.nn.one_hot(actions, obs.available.shape[-1], dtype=hidden.dtype)
        encoded = self.encode_action(jnp.concatenate([hidden, done], axis=-1))
        acted = jnp.where(obs.agent_present[..., None], encoded, 0.0).sum(axis=-2)
        return self.joint(jnp.concatenate([self.summary(self.encode_joint, obs), acted], axis=-1))[..., 0].astype(jnp.float32)

    def state_value(self, obs: Observation) -> Float[Array, "*batch"]:
        """What the state is worth beyond the sum of utilities."""
        return self.state(self.summary(self.encode_state, obs))[..., 0].astype(jnp.float32)


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    weights = {"optimal_weight": config.optimal_weight, "other_weight": config.other_weight}
    return Method(partial(init, config, spec), partial(loss, discount=config.discount, **weights))


def init(config: Config, spec: Spec, key: PRNGKeyArray) -> Model:
    """A fresh model."""
    keys = jax.random.split(key, 6)
    gather, inputs = attending(config.size, config.heads), width(spec, config.last_action)
    acted = (config.memory if config.recurrent else config.size) + spec.actions
    mixer = Qtran(
        encode_joint=entity_encoder(inputs, config.size, gather, keys[0]),
        encode_action=mlp((acted, acted, acted), keys[1]),
        joint=mlp((config.size + acted, config.joint, config.joint, 1), keys[2]),
        encode_state=entity_encoder(inputs, config.size, gather, keys[3]),
        state=mlp((config.size, config.joint, config.joint, 1), keys[4]),
        last_action_dim=spec.actions if config.last_action else 0,
    )
    return Model(utility(config, spec, gather, keys[5]), mixer)


def loss(
    model: Model,
    target: Model,
    episodes: Episode,
    key: PRNGKeyArray,
    discount: float,
    optimal_weight: float,
    other_weight: float,
) -> Loss:
    """The joint value follows the reward; the sum follows the joint value where it is best, and must not fall below it else."""
    obs = episodes.observations
    now, then = (jax.tree.map(lambda leaf, part=part: leaf[:, part], obs) for part in (slice(None, -1), slice(1, None)))
    hidden = model.utility.hidden(obs, obs.visible[None])[0]
    q = jnp.where(obs.agent_present[..., None], model.utility.score(hidden).astype(jnp.float32), 0.0)
    best = td.greedy(q, obs.available)
    hidden_then = target.utility.hidden(obs, obs.visible[None])[0][:, 1:]
    goals = td.targets(
        episodes.rewards, episodes.terminated, target.mixer.joint_value(then, hidden_then, best[:, 1:]), discount
    )
    joint = model.mixer.joint_value(now, hidden[:, :-1], episodes.actions)
    joint_best = model.mixer.joint_value(now, hidden[:, :-1], best[:, :-1])
    rest = model.mixer.state_value(now)

    fixed = jax.lax.stop_gradient
    metrics = td.report(joint, fixed(goals), episodes.valid)
    sum_best = td.chosen(q[:, :-1], best[:, :-1]).sum(axis=-1) + rest
    optimal_loss = td.squared_error(sum_best, fixed(joint_best), episodes.valid)
    sum_taken = td.chosen(q[:, :-1], episodes.actions).sum(axis=-1) + rest
    other_loss = td.squared_error(jnp.minimum(sum_taken - fixed(joint), 0.0), jnp.zeros_like(joint), episodes.valid)
    total = metrics["td_loss"] + optimal_weight * optimal_loss + other_weight * other_loss
    return total, metrics | {"optimal_loss": optimal_loss, "other_loss": other_loss}
