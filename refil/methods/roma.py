"""ROMA (Attention): each agent samples a role from what it sees, which produces the weights of its head (Wang et al. 2020)."""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.learning import td
from refil.learning.losses import ALL_FACTORS, joint_targets, joint_values, target_inputs
from refil.learning.networks import (
    HeadOptions,
    MixingOptions,
    NetOptions,
    attention_factory,
    entity_encoder,
    input_size,
    mixing_network,
)
from refil.learning.td import Loss
from refil.nn.gru import Gru, gru
from refil.nn.layer_norm import LayerNorm, layer_norm
from refil.nn.layers import Linear, linear, relu
from refil.nn.utilities import EntityEncoder, entity_inputs, timestep_keys, unroll_overlapped
from refil.settings import NonNegativeFloat, PositiveInt
from refil.types import EpisodeBatch, Method, MethodInfo, Model, Observation, Spec

INFO = MethodInfo("ROMA (Attention)", "attention, roles", "QMIX")
MIN_VARIANCE = 0.002
MAX_INNER = 2000.0
MAX_LOG = 13.9  # log-likelihoods of roles are clipped to this distance from 0
EPSILON = 1e-12


@dataclass(frozen=True)
class Config(MixingOptions, HeadOptions, NetOptions):
    """Options of ROMA."""

    memory: PositiveInt = 64  # Size of the GRU's hidden state
    role: PositiveInt = 3  # Size of a role
    role_layer: PositiveInt = 16  # Size of the layers that produce roles and read them
    sample_roles: bool = True  # Sample roles, in play as in learning; otherwise use their means
    entropy_weight: NonNegativeFloat = 1e-4  # Weight of the entropy of roles
    surprise_weight: NonNegativeFloat = 1e-4  # Weight of the divergence between roles and their prior from the past
    difference_weight: NonNegativeFloat = 1e-3  # Weight of the dissimilarity of roles


class Roles(NamedTuple):
    """Normal distributions of roles."""

    mean: Float[Array, "*batch agents role"]
    variance: Float[Array, "*batch agents role"]


class Bottleneck(eqx.Module):
    """Two linear layers with a norm between them; layer norm replaces the batch norm of the original.

    Always computes in float32: the dissimilarity of roles is measured by small differences.
    """

    enter: Linear
    norm: LayerNorm
    leave: Linear

    def __call__(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        enter, norm, leave = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (self.enter, self.norm, self.leave))
        return leave(jax.nn.leaky_relu(norm(enter(inputs.astype(jnp.float32)))))


class Features(NamedTuple):
    """Features to score: the hidden state, and the encoding of the current view that roles come from."""

    hidden: Float[Array, "*batch agents memory"]
    seen: Float[Array, "*batch agents size"]


class Output(NamedTuple):
    """Q-values, the distributions of roles, and the sampled roles."""

    q: Float[Array, "*batch agents actions"]
    roles: Roles
    sampled: Float[Array, "*batch agents role"]


class RomaUtility(eqx.Module):
    """A GRU whose head is produced by a role, and the networks that only the loss of roles uses."""

    encoder: EntityEncoder
    input_proj: Linear
    gru: Gru
    role_encoder: EntityEncoder
    role: Bottleneck
    role_prior: Bottleneck
    head_weights: Bottleneck
    dissimilarity: Bottleneck
    sample_roles: bool = eqx.field(static=True)
    last_action_dim: int = eqx.field(static=True)

    def initial_state(self, *batch: int) -> Float[Array, "*batch memory"]:
        """Return the hidden state before the first timestep."""
        return jnp.zeros((*batch, self.input_proj.weight.shape[1]))

    def encode(self, obs: Observation, views: Bool[Array, "views *batch agents entities"]) -> Features:
        """Return the inputs of the GRU and of the role."""
        inputs = entity_inputs(obs, self.last_action_dim)
        return Features(relu(self.encoder(inputs, views, self.input_proj)), self.role_encoder(inputs, views))

    def recur(self, state: Array, inputs: Features) -> tuple[Array, Features]:
        """Advance the GRU by one timestep."""
        hidden = self.gru(self.gru.input_proj(inputs.hidden), state)
        return hidden, Features(hidden, inputs.seen)

    def project_inputs(self, inputs: Features) -> Features:
        """Return the inputs' part of all gates."""
        return Features(self.gru.project_inputs(inputs.hidden), inputs.seen)

    def recur_all(self, inputs: Features, is_first: Bool[Array, "1 time ..."], start: Array | None = None) -> Features:
        """Return the hidden state after every timestep."""
        return Features(self.gru.unroll(inputs.hidden, is_first, start), inputs.seen)

    def q_values(self, features: Features, obs: Observation) -> Float[Array, "views *batch agents actions"]:
        """Score every action with the weights that the sampled role produces."""
        return self.forward(features, obs).q

    def forward(self, features: Features, obs: Observation) -> Output:
        """Return the Q-values together with the roles; all views share the same noise."""
        roles = _roles(self.role(features.seen))
        noise = self._noise(obs, roles.mean.shape[-2:]) if self.sample_roles else 0.0
        sampled = roles.mean + jnp.sqrt(roles.variance) * noise
        actions = obs.available.shape[-1]
        produced = self.head_weights(sampled)
        weight, bias = produced[..., actions:].reshape(*produced.shape[:-1], -1, actions), produced[..., :actions]
        return Output((features.hidden[..., None] * weight).sum(axis=-2) + bias, roles, sampled)

    def _noise(self, obs: Observation, shape: tuple[int, ...]) -> Float[Array, "*batch agents role"]:
        assert obs.key is not None
        return jax.vmap(lambda key: jax.random.normal(key, shape))(obs.key.reshape(-1)).reshape(*obs.key.shape, *shape)


def _roles(numbers: Float[Array, "*batch numbers"]) -> Roles:
    mean, log_variance = jnp.split(numbers, 2, axis=-1)
    return Roles(mean, jnp.maximum(jnp.exp(log_variance), MIN_VARIANCE))


def identifiability(
    roles: Roles, prior: Roles, agent_present: Bool[Array, "*batch agents"], entropy_weight: float, surprise_weight: float
) -> Float[Array, "*batch"]:
    """Return the loss that makes roles certain and predictable from the past, averaged over present agents."""
    entropy = 0.5 * jnp.log(2 * jnp.pi * jnp.e * roles.variance).sum(axis=-1)
    ratio = roles.variance / prior.variance
    surprise = 0.5 * (ratio + (roles.mean - prior.mean) ** 2 / prior.variance - 1 - jnp.log(ratio)).sum(axis=-1)
    inner = jnp.where(agent_present, entropy_weight * entropy + surprise_weight * surprise, 0.0).sum(axis=-1)
    return jax.nn.softplus(jnp.minimum(inner / jnp.maximum(agent_present.sum(axis=-1), 1), MAX_INNER))


def dissimilarity(
    roles: Roles,
    sampled: Float[Array, "*batch agents role"],
    distance: Float[Array, "*batch agents agents"],
    agent_present: Bool[Array, "*batch agents"],
) -> Float[Array, "*batch"]:
    """Return the loss that makes two agents' roles either similar given their pasts, or dissimilar."""
    both = agent_present[..., :, None] & agent_present[..., None, :]
    squared = (sampled[..., None, :, :] - roles.mean[..., :, None, :]) ** 2 / roles.variance[..., :, None, :]
    likelihood = -0.5 * (squared + jnp.log(2 * jnp.pi * roles.variance[..., :, None, :]))
    similarity = jnp.maximum(likelihood + MAX_LOG, -MAX_LOG).mean(axis=-1)
    similarity, distance = _normalize_pairs(similarity, both), _normalize_pairs(distance, both)
    term = jnp.where(both, distance - jnp.minimum(similarity + distance, 1.0), 0.0)
    return term.sum(axis=(-1, -2)) / jnp.maximum(both.sum(axis=(-1, -2)), 1)


def _normalize_pairs(values: Float[Array, "*batch agents agents"], both: Bool[Array, "*batch agents agents"]) -> Array:
    """Scale the pairs of a timestep to 0 for the smallest and 1 for the largest value."""
    low = jnp.where(both, values, jnp.inf).min(axis=(-1, -2), keepdims=True)
    high = jnp.where(both, values, -jnp.inf).max(axis=(-1, -2), keepdims=True)
    some = both.any(axis=(-1, -2), keepdims=True)
    low, high = jnp.where(some, low, 0.0), jnp.where(some, high, 0.0)
    return (jnp.where(both, values, low) - low) / (high - low + EPSILON)


def build(config: Config, spec: Spec) -> Method:
    """Return the method for an environment of these sizes."""
    return Method(partial(init, config, spec), partial(loss, config=config))


def init(config: Config, spec: Spec, key: PRNGKeyArray) -> Model:
    """Initialize a model."""
    keys = jax.random.split(key, 9)
    aggregator, inputs = attention_factory(config.size, config.heads), input_size(spec, config.last_action)
    utility = RomaUtility(
        encoder=entity_encoder(inputs, config.size, aggregator, keys[0]),
        input_proj=linear(config.size, config.memory, keys[1]),
        gru=gru(config.memory, config.memory, keys[2]),
        role_encoder=entity_encoder(inputs, config.size, aggregator, keys[3]),
        role=_bottleneck(config.size, config.role_layer, 2 * config.role, keys[4]),
        role_prior=_bottleneck(config.memory + config.size, config.role_layer, 2 * config.role, keys[5]),
        head_weights=_bottleneck(config.role, config.role_layer, (config.memory + 1) * spec.actions, keys[6]),
        dissimilarity=_bottleneck(2 * config.role, config.role_layer, 1, keys[7]),
        sample_roles=config.sample_roles,
        last_action_dim=spec.actions if config.last_action else 0,
    )
    return Model(utility, mixing_network(config, config, spec, aggregator, keys[8]))


def _bottleneck(inputs: int, layer: int, outputs: int, key: PRNGKeyArray) -> Bottleneck:
    key_enter, key_leave = jax.random.split(key)
    return Bottleneck(linear(inputs, layer, key_enter), layer_norm(layer), linear(layer, outputs, key_leave))


def loss(model: Model, target: Model, batch: EpisodeBatch, key: PRNGKeyArray, config: Config) -> Loss:
    """Return the loss of Q-learning on the joint value, plus the losses of roles."""
    obs, utility = batch.observations, model.utility
    assert isinstance(utility, RomaUtility)
    keys = jax.random.split(key)
    others = partial(target_inputs, model, target, batch, obs.full_view[None], keys[1])
    q, features, inputs = unroll_overlapped(utility, batch, obs.visible[None], keys[0], others)
    td_targets = joint_targets(target, inputs, q[0], batch, config.discount)
    (value,) = joint_values(model.mixer, inputs.context, q, batch, [ALL_FACTORS])
    td_loss, metrics = td.loss(value, td_targets, batch.valid)
    seen_obs = replace(obs, key=timestep_keys(batch, keys[0]))
    output = utility.forward(jax.tree.map(lambda leaf: leaf[0], features), seen_obs)  # of a packed batch, XLA computes it once
    identity_loss, difference_loss = (
        _mean(part[:, :-1], batch.valid) for part in _role_losses(utility, features, output, obs, config)
    )
    total = td_loss + identity_loss + config.difference_weight * difference_loss
    return total, metrics | {"identifiability_loss": identity_loss, "dissimilarity_loss": difference_loss}


def _role_losses(
    utility: RomaUtility, features: Features, output: Output, obs: Observation, config: Config
) -> tuple[Float[Array, "batch timesteps"], Float[Array, "batch timesteps"]]:
    assert obs.is_first is not None
    hidden, seen = features.hidden[0], features.seen[0]
    before = jnp.pad(hidden[:, :-1], ((0, 0), (1, 0), (0, 0), (0, 0)))
    before = jnp.where(obs.is_first[..., None, None], 0.0, before)
    prior = _roles(utility.role_prior(jax.lax.stop_gradient(jnp.concatenate([before, seen], axis=-1))))
    certain = identifiability(output.roles, prior, obs.agent_present, config.entropy_weight, config.surprise_weight)
    pairs = (*obs.agent_present.shape, obs.agent_present.shape[-1], config.role)
    pair = [jnp.broadcast_to(jnp.expand_dims(output.sampled, axis), pairs) for axis in (-2, -3)]
    distance = jnp.abs(utility.dissimilarity(jnp.concatenate(pair, axis=-1))[..., 0])
    return certain, dissimilarity(output.roles, output.sampled, distance, obs.agent_present)


def _mean(values: Float[Array, "*batch time"], valid: Bool[Array, "*batch time"]) -> Float[Array, ""]:
    return jnp.where(valid, values, 0.0).sum() / jnp.maximum(valid.sum(), 1)
