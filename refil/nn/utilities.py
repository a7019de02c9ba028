"""Utilities: what each action is worth to each agent, from the entities it sees (paper, section 2; methods of section 4)."""

from collections.abc import Callable
from functools import partial
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from refil.nn.attention import Attention
from refil.nn.gru import Gru, gru
from refil.nn.kernels.overlap import after, last_to_go_back
from refil.nn.layers import Linear, linear, relu
from refil.nn.pooling import Pooling
from refil.nn.time_major import as_it_was, time_first
from refil.types import Beside, Observation, Spec, at_once, entity_inputs, nothing

Gather = Attention | Pooling


@runtime_checkable
class Encoder(Protocol):
    """What each agent makes of the entities in view: one row per agent, through a following linear layer if there is one."""

    def __call__(
        self,
        inputs: Float[Array, "*batch entities features"],
        views: Bool[Array, "views *batch agents entities"],
        following: Linear | None = None,
    ) -> Float[Array, "views *batch agents outputs"]: ...


class EntityEncoder(eqx.Module):
    """Embed every entity, gather those in view: one layer, so that nothing out of view can be told on by another entity."""

    embed: Linear
    gather: Gather

    def __call__(
        self,
        inputs: Float[Array, "*batch entities features"],
        views: Bool[Array, "views *batch agents entities"],
        following: Linear | None = None,
    ) -> Float[Array, "views *batch agents outputs"]:
        """What is gathered has no activation before the following layer."""
        return self.gather.project(relu(self.embed(inputs)), following).attend(views)


class FeedForwardUtility(eqx.Module):
    """Encode what is in view, score actions: no memory (the authors' choice for group matching)."""

    encode: Encoder
    score: Linear
    last_action_dim: int = eqx.field(static=True)

    def start(self, *batch: int) -> Float[Array, "..."]:
        """Nothing to remember."""
        return jnp.zeros((*batch, 0))

    def step(
        self, memory: Array, obs: Observation, key: PRNGKeyArray | None = None
    ) -> tuple[Array, Float[Array, "*batch agents actions"]]:
        """Utilities of one instant through what is visible."""
        return memory, self.unroll(obs, obs.visible[None])[0][0]

    def hidden(
        self, obs: Observation, views: Bool[Array, "views *batch agents entities"]
    ) -> Float[Array, "views *batch agents size"]:
        """What is scored."""
        return relu(self.encode(entity_inputs(obs, self.last_action_dim), views))

    def unroll(
        self,
        obs: Observation,
        views: Bool[Array, "views *batch agents entities"],
        key: PRNGKeyArray | None = None,
        beside: Beside = nothing,
    ) -> tuple[Float[Array, "views *batch agents actions"], PyTree]:
        """Utilities of all instants, and what is made beside."""
        q = self.score(self.hidden(obs, views)).astype(jnp.float32)
        return jnp.where(obs.agent_present[..., None], q, 0.0), beside(at_once)


class Recurrent(eqx.Module):
    """Encode what is in view and remember it."""

    encode: Encoder
    digest: Linear
    remember: Gru
    last_action_dim: int = eqx.field(static=True)

    def start(self, *batch: int) -> Float[Array, "*batch size"]:
        """An empty memory."""
        return jnp.zeros((*batch, self.digest.weight.shape[1]))

    def perceive(
        self, obs: Observation, views: Bool[Array, "views *batch agents entities"]
    ) -> Float[Array, "views *batch agents size"]:
        """What each agent makes of an instant, before memory."""
        return relu(self.encode(entity_inputs(obs, self.last_action_dim), views, self.digest))

    def step(self, memory: Array, obs: Observation) -> Float[Array, "*batch agents size"]:
        """The memory after one more instant, through what is visible."""
        return self.remember(self.remember.input_proj(self.perceive(obs, obs.visible[None])[0]), memory)

    def unroll(
        self, obs: Observation, views: Bool[Array, "views *batch time agents entities"], beside: Beside = nothing
    ) -> tuple[Float[Array, "views *batch time agents size"], PyTree]:
        """The memory after each instant of whole episodes, each view with a memory of its own; and what is made beside."""
        shares = self.remember.project_inputs(time_first(obs.turns, self.perceive(obs, views), behind=2))
        made = beside(partial(after, shares))
        first = time_first(obs.turns, obs.is_first, behind=0)[:, None, ..., None, None]
        memories, made = last_to_go_back(self.remember.unroll(shares, first), made)
        return as_it_was(obs.turns, memories, behind=2), made


class GruUtility(eqx.Module):
    """Encode what is in view, remember, score actions (the authors' choice for StarCraft)."""

    trunk: Recurrent
    score: Linear

    def start(self, *batch: int) -> Float[Array, "*batch size"]:
        """An empty memory."""
        return self.trunk.start(*batch)

    def step(
        self, memory: Array, obs: Observation, key: PRNGKeyArray | None = None
    ) -> tuple[Array, Float[Array, "*batch agents actions"]]:
        """The memory after one more instant, and its utilities."""
        memory = self.trunk.step(memory, obs)
        return memory, jnp.where(obs.agent_present[..., None], self.score(memory), 0.0)

    def hidden(
        self, obs: Observation, views: Bool[Array, "views *batch time agents entities"]
    ) -> Float[Array, "views *batch time agents size"]:
        """What is scored: the memory after each instant."""
        return self.trunk.unroll(obs, views)[0]

    def unroll(
        self,
        obs: Observation,
        views: Bool[Array, "views *batch time agents entities"],
        key: PRNGKeyArray | None = None,
        beside: Beside = nothing,
    ) -> tuple[Float[Array, "views *batch time agents actions"], PyTree]:
        """Utilities of whole episodes, and what is made beside."""
        memories, made = self.trunk.unroll(obs, views, beside)
        return jnp.where(obs.agent_present[..., None], self.score(memories).astype(jnp.float32), 0.0), made


def entity_encoder(inputs: int, size: int, gather: Callable[[PRNGKeyArray], Gather], key: PRNGKeyArray) -> EntityEncoder:
    """A fresh encoder around a fresh layer of this kind."""
    key_embed, key_gather = jax.random.split(key)
    return EntityEncoder(linear(inputs, size, key_embed), gather(key_gather))


def scoring_utility(
    spec: Spec, encode: Encoder, recurrent: bool, size: int, memory: int, last_action: bool, key: PRNGKeyArray
) -> FeedForwardUtility | GruUtility:
    """A fresh utility on this encoder, with memory or without; `size` is the width of what is encoded."""
    key_digest, key_memory, key_score = jax.random.split(key, 3)
    last_action_dim = spec.actions if last_action else 0
    if not recurrent:
        return FeedForwardUtility(encode, linear(size, spec.actions, key_score), last_action_dim)
    trunk = Recurrent(encode, linear(size, memory, key_digest), gru(memory, memory, key_memory), last_action_dim)
    return GruUtility(trunk, linear(memory, spec.actions, key_score))
