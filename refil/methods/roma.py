"""ROMA (Attention): agents draw a role from what they see, and it makes the weights that score actions (Wang et al. 2020)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from refil.learning import td
from refil.learning.losses import ALL, Loss, goal, joint_values, read_both
from refil.learning.networks import HeadOptions, MixingOptions, NetOptions, attending, qmix, width
from refil.nn.gru import gru
from refil.nn.layers import LayerNorm, Linear, layer_norm, linear
from refil.nn.utilities import EntityEncoder, Recurrent, entity_encoder
from refil.settings import NonNegativeFloat, PositiveInt
from refil.types import Beside, Episode, Method, MethodInfo, Model, Observation, Spec, entity_inputs, nothing

LEAST_VARIANCE = 0.002
MOST_INNER = 2000.0
MOST_LOG = 13.9  # likelihoods of roles are held within this of 1, in logarithms
SMALL = 1e-12

Draw = Callable[[tuple[int, ...]], Array]  # so many normal numbers

INFO = MethodInfo("ROMA (Attention)", "attention, roles", "QMIX")


@dataclass(frozen=True)
class Config(MixingOptions, HeadOptions, NetOptions):
    """Options of ROMA."""

    memory: PositiveInt = 64  # width of the memory
    role: PositiveInt = 3  # numbers in a role
    role_layer: PositiveInt = 16  # width of the layers that make roles and what follows from them
    sample_roles: bool = True  # draw roles, in play as in learning; else take their means
    entropy_weight: NonNegativeFloat = 1e-4  # of the roles' entropy
    surprise_weight: NonNegativeFloat = 1e-4  # of how far a role is from what the past foretells
    difference_weight: NonNegativeFloat = 1e-3  # of how unlike roles are to be


class Roles(NamedTuple):
    """Normal distributions of roles."""

    mean: Float[Array, "*batch agents role"]
    variance: Float[Array, "*batch agents role"]


class Narrow(eqx.Module):
    """A narrow layer between two others. Normed over its own columns, where the original norms over the batch.

    It works in float32 whatever it is given: how alike roles are is measured by small differences.
    """

    enter: Linear
    norm: LayerNorm
    leave: Linear

    def __call__(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        enter, norm, leave = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (self.enter, self.norm, self.leave))
        return leave(jax.nn.leaky_relu(norm(enter(inputs.astype(jnp.float32)))))


class Thought(NamedTuple):
    """All that a pass through the utility comes to."""

    q: Float[Array, "*batch agents actions"]
    memory: Float[Array, "*batch agents memory"]
    seen: Float[Array, "*batch agents size"]
    roles: Roles
    drawn: Float[Array, "*batch agents role"]


class RomaUtility(eqx.Module):
    """A memory of what was seen, scored by weights that a role makes; what it takes to learn roles is here as well."""

    trunk: Recurrent
    look: EntityEncoder
    role: Narrow
    foretell: Narrow
    weights: Narrow
    unlike: Narrow
    sampled: bool = eqx.field(static=True)

    def start(self, *batch: int) -> Float[Array, "*batch size"]:
        """An empty memory."""
        return self.trunk.start(*batch)

    def think(
        self, memory: Float[Array, "*batch agents memory"], obs: Observation, view: Bool[Array, "..."], draw: Draw
    ) -> Thought:
        """Score the actions of instants whose memory is known."""
        seen = self.look(entity_inputs(obs, self.trunk.last_action_dim), view[None])[0]
        roles = as_roles(self.role(seen))
        noise = draw(roles.mean.shape) if self.sampled else 0.0
        drawn = roles.mean + jnp.sqrt(roles.variance) * noise
        actions = obs.available.shape[-1]
        made = self.weights(drawn)
        weight, bias = made[..., actions:].reshape(*made.shape[:-1], -1, actions), made[..., :actions]
        q = (memory[..., None] * weight).sum(axis=-2) + bias
        return Thought(jnp.where(obs.agent_present[..., None], q, 0.0), memory, seen, roles, drawn)

    def step(self, memory: Array, obs: Observation, key: PRNGKeyArray) -> tuple[Array, Float[Array, "*batch agents actions"]]:
        """The memory after one more instant, and its utilities."""
        memory = self.trunk.step(memory, obs)
        return memory, self.think(memory, obs, obs.visible, partial(jax.random.normal, key)).q

    def unroll(
        self,
        obs: Observation,
        views: Bool[Array, "views *batch time agents entities"],
        key: PRNGKeyArray,
        beside: Beside = nothing,
    ) -> tuple[Float[Array, "views *batch time agents actions"], PyTree]:
        """Utilities of whole episodes, and what is made beside; roles are the same chances through all views."""
        memories, made = self.trunk.unroll(obs, views, beside)
        draw = partial(normal_by_instant, key, obs)
        q = jnp.stack([self.think(memory, obs, view, draw).q for memory, view in zip(memories, views, strict=True)])
        return q, made


def normal_by_instant(key: PRNGKeyArray, obs: Observation, shape: tuple[int, ...]) -> Float[Array, "*batch agents role"]:
    """Normal numbers that an instant of an episode gets wherever in the batch it lies, in a row of its own or on a line."""
    first = obs.is_first.reshape(-1)
    here = jnp.arange(len(first))
    number, instant = jnp.cumsum(first), here - jax.lax.cummax(jnp.where(first, here, 0))
    keys = jax.vmap(lambda *moment: jax.random.fold_in(jax.random.fold_in(key, moment[0]), moment[1]))(number, instant)
    return jax.vmap(lambda key: jax.random.normal(key, shape[-2:]))(keys).reshape(shape)


def as_roles(numbers: Float[Array, "*batch numbers"]) -> Roles:
    """Means, and variances that are never nothing."""
    mean, logarithm = jnp.split(numbers, 2, axis=-1)
    return Roles(mean, jnp.maximum(jnp.exp(logarithm), LEAST_VARIANCE))


def identifiability(
    roles: Roles, foretold: Roles, acting: Bool[Array, "*batch agents"], entropy_weight: float, surprise_weight: float
) -> Float[Array, "*batch"]:
    """Roles are to be certain, and what the past foretells: one number per instant, over the agents that are there."""
    entropy = 0.5 * jnp.log(2 * jnp.pi * jnp.e * roles.variance).sum(axis=-1)
    ratio = roles.variance / foretold.variance
    surprise = 0.5 * (ratio + (roles.mean - foretold.mean) ** 2 / foretold.variance - 1 - jnp.log(ratio)).sum(axis=-1)
    inner = jnp.where(acting, entropy_weight * entropy + surprise_weight * surprise, 0.0).sum(axis=-1)
    return jax.nn.softplus(jnp.minimum(inner / jnp.maximum(acting.sum(axis=-1), 1), MOST_INNER))


def dissimilarity(
    roles: Roles, drawn: Float[Array, "*batch agents role"], unlike: Float[Array, "*batch agents agents"], acting: Array
) -> Float[Array, "*batch"]:
    """Of any two agents either their roles are alike by their pasts, or they are to be unlike: one number per instant."""
    there = acting[..., :, None] & acting[..., None, :]
    away = (drawn[..., None, :, :] - roles.mean[..., :, None, :]) ** 2 / roles.variance[..., :, None, :]
    likelihood = -0.5 * (away + jnp.log(2 * jnp.pi * roles.variance[..., :, None, :]))
    alike = jnp.maximum(likelihood + MOST_LOG, -MOST_LOG).mean(axis=-1)
    alike, unlike = within_pairs(alike, there), within_pairs(unlike, there)
    term = jnp.where(there, unlike - jnp.minimum(alike + unlike, 1.0), 0.0)
    return term.sum(axis=(-1, -2)) / jnp.maximum(there.sum(axis=(-1, -2)), 1)


def within_pairs(values: Float[Array, "*batch agents agents"], there: Bool[Array, "*batch agents agents"]) -> Array:
    """From 0 for the least to 1 for the most of an instant's pairs."""
    least = jnp.where(there, values, jnp.inf).min(axis=(-1, -2), keepdims=True)
    most = jnp.where(there, values, -jnp.inf).max(axis=(-1, -2), keepdims=True)
    some = there.any(axis=(-1, -2), keepdims=True)
    least, most = jnp.where(some, least, 0.0), jnp.where(some, most, 0.0)
    return (jnp.where(there, values, least) - least) / (most - least + SMALL)


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return Method(partial(init, config, spec), partial(loss, config=config))


def init(config: Config, spec: Spec, key: PRNGKeyArray) -> Model:
    """A fresh model."""
    keys = jax.random.split(key, 9)
    gather, inputs = attending(config.size, config.heads), width(spec, config.last_action)
    trunk = Recurrent(
        encode=entity_encoder(inputs, config.size, gather, keys[0]),
        digest=linear(config.size, config.memory, keys[1]),
        remember=gru(config.memory, config.memory, keys[2]),
        last_action_dim=spec.actions if config.last_action else 0,
    )
    utility = RomaUtility(
        trunk=trunk,
        look=entity_encoder(inputs, config.size, gather, keys[3]),
        role=narrow(config.size, config.role_layer, 2 * config.role, keys[4]),
        foretell=narrow(config.memory + config.size, config.role_layer, 2 * config.role, keys[5]),
        weights=narrow(config.role, config.role_layer, (config.memory + 1) * spec.actions, keys[6]),
        unlike=narrow(2 * config.role, config.role_layer, 1, keys[7]),
        sampled=config.sample_roles,
    )
    return Model(utility, qmix(config, config.size, config.last_action, spec, gather, keys[8]))


def narrow(inputs: int, layer: int, outputs: int, key: PRNGKeyArray) -> Narrow:
    """A fresh narrow layer."""
    key_enter, key_leave = jax.random.split(key)
    return Narrow(linear(inputs, layer, key_enter), layer_norm(layer), linear(layer, outputs, key_leave))


def loss(model: Model, target: Model, episodes: Episode, key: PRNGKeyArray, config: Config) -> Loss:
    """Q-learning on the joint value; and roles that can be told from an agent's past, and differ where pasts do."""
    obs, utility = episodes.observations, model.utility
    key_model, key_target = jax.random.split(key)
    reading = partial(read_both, model, target, obs, obs.full_view[None], key_target)
    memories, read = utility.trunk.unroll(obs, obs.visible[None], reading)
    thought = utility.think(memories[0], obs, obs.visible, partial(normal_by_instant, key_model, obs))
    goals = goal(target, read, thought.q, episodes, config.discount)
    (value,) = joint_values(model.mixer, read, thought.q[None], episodes, [ALL])
    metrics = td.report(value, goals, episodes.valid)

    before = jnp.pad(thought.memory[:, :-1], ((0, 0), (1, 0), (0, 0), (0, 0)))
    before = jnp.where(obs.is_first[..., None, None], 0.0, before)
    past = jax.lax.stop_gradient(jnp.concatenate([before, thought.seen], axis=-1))
    foretold = as_roles(utility.foretell(past))
    clear = identifiability(thought.roles, foretold, obs.agent_present, config.entropy_weight, config.surprise_weight)
    agents = obs.agent_present.shape[-1]
    of_pairs = (*obs.agent_present.shape, agents, config.role)
    pair = [jnp.broadcast_to(jnp.expand_dims(thought.drawn, axis), of_pairs) for axis in (-2, -3)]
    unlike = jnp.abs(utility.unlike(jnp.concatenate(pair, axis=-1))[..., 0])
    differing = dissimilarity(thought.roles, thought.drawn, unlike, obs.agent_present)
    clear_loss, difference_loss = (mean(part[:, :-1], episodes.valid) for part in (clear, differing))
    total = metrics["td_loss"] + clear_loss + config.difference_weight * difference_loss
    return total, metrics | {"identifiability_loss": clear_loss, "dissimilarity_loss": difference_loss}


def mean(values: Float[Array, "*batch time"], valid: Bool[Array, "*batch time"]) -> Float[Array, ""]:
    """Over valid steps."""
    return jnp.where(valid, values, 0.0).sum() / jnp.maximum(valid.sum(), 1)
