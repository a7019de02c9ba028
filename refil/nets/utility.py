"""Utilities: what each action is worth to each agent, from the entities it sees (paper, section 2; methods of section 4)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nets.attention import Attention, attention
from refil.nets.layers import Gru, Linear, gru, linear
from refil.types import Observation, Spec, rows


class FeedForwardUtility(eqx.Module):
    """Embed entities, gather what is in view, score actions: no memory (the authors' choice for group matching)."""

    embed: Linear
    gather: Attention
    score: Linear
    actions_read: int = eqx.field(static=True)

    def start(self, *batch: int) -> Float[Array, "..."]:
        """Nothing to remember."""
        return jnp.zeros((*batch, 0))

    def step(self, memory: Array, obs: Observation) -> tuple[Array, Float[Array, "*batch agents actions"]]:
        """Utilities of one instant through what is visible."""
        return memory, self.unroll(obs, obs.visible[None])[0]

    def unroll(
        self, obs: Observation, views: Bool[Array, "views *batch agents entities"]
    ) -> Float[Array, "views *batch agents actions"]:
        """Utilities of all instants through each of the views."""
        embedded = jax.nn.relu(self.embed(rows(obs, self.actions_read)))
        reading = self.gather.read(embedded, agents=views.shape[-2])
        q = self.score(jax.nn.relu(reading.through(views)))
        return jnp.where(obs.acting[..., None], q, 0.0)


class GruUtility(eqx.Module):
    """Embed entities, gather what is in view, remember, score actions (the authors' choice for StarCraft)."""

    embed: Linear
    gather: Attention
    digest: Linear
    remember: Gru
    score: Linear
    actions_read: int = eqx.field(static=True)

    def start(self, *batch: int) -> Float[Array, "*batch size"]:
        """An empty memory."""
        return jnp.zeros((*batch, self.score.weight.shape[0]))

    def perceive(
        self, obs: Observation, views: Bool[Array, "views *batch agents entities"]
    ) -> Float[Array, "views *batch agents size"]:
        """What each agent makes of an instant, before memory."""
        embedded = jax.nn.relu(self.embed(rows(obs, self.actions_read)))
        return jax.nn.relu(self.gather.read(embedded, views.shape[-2], self.digest).through(views))

    def step(self, memory: Array, obs: Observation) -> tuple[Array, Float[Array, "*batch agents actions"]]:
        """The memory after one more instant, and its utilities, through what is visible."""
        memory = self.remember(self.remember.from_input(self.perceive(obs, obs.visible[None])[0]), memory)
        return memory, jnp.where(obs.acting[..., None], self.score(memory), 0.0)

    def unroll(
        self, obs: Observation, views: Bool[Array, "views *batch time agents entities"]
    ) -> Float[Array, "views *batch time agents actions"]:
        """Utilities of whole episodes, each view with a memory of its own."""
        perceived = jnp.moveaxis(self.perceive(obs, views), -3, 0)
        first = jnp.moveaxis(obs.first, -1, 0)[:, None, ..., None, None]
        memories = jnp.moveaxis(self.remember.unroll(perceived, first), 0, -3)
        return jnp.where(obs.acting[..., None], self.score(memories), 0.0)


def attention_utility(
    spec: Spec, recurrent: bool, size: int, memory: int, heads: int, last_action: bool, key: PRNGKeyArray
) -> FeedForwardUtility | GruUtility:
    """A fresh utility with one attention layer, with memory or without."""
    key_embed, key_gather, key_digest, key_memory, key_score = jax.random.split(key, 5)
    actions_read = spec.actions if last_action else 0
    embed = linear(spec.features + actions_read, size, key_embed)
    gather = attention(size, heads, key_gather)
    if not recurrent:
        return FeedForwardUtility(embed, gather, linear(size, spec.actions, key_score), actions_read)
    digest, cell = linear(size, memory, key_digest), gru(memory, memory, key_memory)
    return GruUtility(embed, gather, digest, cell, linear(memory, spec.actions, key_score), actions_read)
