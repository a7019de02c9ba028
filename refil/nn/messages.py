"""Entity message passing (EMP, Agarwal et al. 2020): agents attend to other entities, then exchange messages in rounds.

Messages pass between agents that view each other, so after n rounds an agent may know of entities that only agents n hops
away can see. This is the only encoder in which agents communicate.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nn.layers import Linear, linear, masked_softmax, matmul, relu, uniform


class CrossAttention(eqx.Module):
    """Multi-head attention from one set to another, without biases and without an output layer."""

    query: Float[Array, "size size"]
    key_value: Float[Array, "size two_sizes"]
    heads: int = eqx.field(static=True)

    def __call__(
        self,
        agents: Float[Array, "*batch agents size"],
        others: Float[Array, "*batch others size"],
        views: Bool[Array, "*batch agents others"],
    ) -> Float[Array, "*batch agents size"]:
        """Return what each agent attends to among the others in its view; zeros if it has none in view."""
        if others.shape[-2] == 0:
            return jnp.zeros_like(agents)
        queries = self._split_heads(matmul(agents, self.query))
        keys, values = map(self._split_heads, jnp.split(matmul(others, self.key_value), 2, axis=-1))
        logits = queries @ jnp.swapaxes(keys, -2, -1) * queries.shape[-1] ** -0.5
        return jnp.swapaxes(masked_softmax(logits, views[..., None, :, :]) @ values, -3, -2).reshape(agents.shape)

    def _split_heads(self, columns: Float[Array, "*batch rows columns"]) -> Float[Array, "*batch heads rows width"]:
        return jnp.swapaxes(columns.reshape(*columns.shape[:-1], self.heads, -1), -3, -2)


class MessageEncoder(eqx.Module):
    """EMP's encoder. Agents and other entities have separate embeddings; all message rounds share their weights."""

    embed_agents: Linear
    embed_others: Linear
    entity_attention: CrossAttention
    entity_merge: Linear
    message_attention: CrossAttention
    message_merge: Linear
    rounds: int = eqx.field(static=True)

    def __call__(
        self,
        inputs: Float[Array, "*batch entities features"],
        views: Bool[Array, "views *batch agents entities"],
        following: Linear | None = None,
    ) -> Float[Array, "views *batch agents outputs"]:
        """Return each agent's encoding after all rounds. Absent agents are in no view, so they send no messages."""
        count = views.shape[-2]
        agents = relu(self.embed_agents(inputs[..., :count, :]))
        others = relu(self.embed_others(inputs[..., count:, :]))
        agents, others = (jnp.broadcast_to(rows, (len(views), *rows.shape)) for rows in (agents, others))
        observed = self.entity_attention(agents, others, views[..., count:])
        agents = relu(self.entity_merge(jnp.concatenate([agents, observed], axis=-1)))
        for _ in range(self.rounds):
            received = self.message_attention(agents, agents, views[..., :count])
            agents = relu(self.message_merge(jnp.concatenate([agents, received], axis=-1)))
        return agents if following is None else following(agents)


def cross_attention(size: int, heads: int, key: PRNGKeyArray) -> CrossAttention:
    """Initialize a cross-attention layer."""
    key_query, key_rest = jax.random.split(key)
    return CrossAttention(uniform(key_query, (size, size), size), uniform(key_rest, (size, 2 * size), size), heads)


def message_encoder(inputs: int, size: int, heads: int, rounds: int, key: PRNGKeyArray) -> MessageEncoder:
    """Initialize an EMP encoder with the given number of message rounds."""
    keys = jax.random.split(key, 6)
    return MessageEncoder(
        embed_agents=linear(inputs, size, keys[0]),
        embed_others=linear(inputs, size, keys[1]),
        entity_attention=cross_attention(size, heads, keys[2]),
        entity_merge=linear(2 * size, size, keys[3]),
        message_attention=cross_attention(size, heads, keys[4]),
        message_merge=linear(2 * size, size, keys[5]),
        rounds=rounds,
    )
