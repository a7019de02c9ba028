"""Entity message passing (Agarwal et al. 2020): agents look at other entities, then talk among themselves in rounds.

Messages pass between agents that see each other, so after three rounds an agent may know what only a friend's friend sees:
of all encoders here this is the one that communicates.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nn.layers import Linear, linear, multiply, relu, uniform
from refil.nn.softmax import shares


class Listening(eqx.Module):
    """Attention from some rows to others, without biases and without an output layer; who hears nobody gets zeros."""

    query: Float[Array, "size size"]
    key_value: Float[Array, "size two_sizes"]
    heads: int = eqx.field(static=True)

    def __call__(
        self,
        own: Float[Array, "*batch agents size"],
        others: Float[Array, "*batch others size"],
        heard: Bool[Array, "*batch agents others"],
    ) -> Float[Array, "*batch agents size"]:
        """What each row hears."""
        if others.shape[-2] == 0:
            return jnp.zeros_like(own)
        queries, (keys, values) = self.split(multiply(own, self.query), 1)[0], self.split(multiply(others, self.key_value), 2)
        logits = queries @ jnp.swapaxes(keys, -2, -1) * queries.shape[-1] ** -0.5
        return jnp.swapaxes(shares(logits, heard[..., None, :, :]) @ values, -3, -2).reshape(own.shape)

    def split(self, columns: Float[Array, "*batch rows columns"], parts: int) -> list[Float[Array, "*batch heads rows width"]]:
        """Columns in equal parts, each of them head by head."""
        halves = jnp.split(columns, parts, axis=-1)
        return [jnp.swapaxes(half.reshape(*half.shape[:-1], self.heads, -1), -3, -2) for half in halves]


class MessageEncoder(eqx.Module):
    """Agents and other entities are embedded apart; what is heard is joined to what an agent has already."""

    embed_agents: Linear
    embed_others: Linear
    look: Listening
    join: Linear
    talk: Listening
    update: Linear
    rounds: int = eqx.field(static=True)

    def __call__(
        self,
        inputs: Float[Array, "*batch entities features"],
        views: Bool[Array, "views *batch agents entities"],
        following: Linear | None = None,
    ) -> Float[Array, "views *batch agents outputs"]:
        """Each agent's row after all rounds; absent agents are in nobody's view and so are never heard."""
        agents = views.shape[-2]
        own = relu(self.embed_agents(inputs[..., :agents, :]))
        others = relu(self.embed_others(inputs[..., agents:, :]))
        own, others = (jnp.broadcast_to(rows, (len(views), *rows.shape)) for rows in (own, others))
        seen = self.look(own, others, views[..., agents:])
        own = relu(self.join(jnp.concatenate([own, seen], axis=-1)))
        for _ in range(self.rounds):
            heard = self.talk(own, own, views[..., :agents])
            own = relu(self.update(jnp.concatenate([own, heard], axis=-1)))
        return own if following is None else following(own)


def listening(size: int, heads: int, key: PRNGKeyArray) -> Listening:
    """A fresh layer."""
    key_query, key_rest = jax.random.split(key)
    return Listening(uniform(key_query, (size, size), size), uniform(key_rest, (size, 2 * size), size), heads)


def message_encoder(inputs: int, size: int, heads: int, rounds: int, key: PRNGKeyArray) -> MessageEncoder:
    """A fresh encoder; all rounds share their weights."""
    keys = jax.random.split(key, 6)
    return MessageEncoder(
        embed_agents=linear(inputs, size, keys[0]),
        embed_others=linear(inputs, size, keys[1]),
        look=listening(size, heads, keys[2]),
        join=linear(2 * size, size, keys[3]),
        talk=listening(size, heads, keys[4]),
        update=linear(2 * size, size, keys[5]),
        rounds=rounds,
    )
