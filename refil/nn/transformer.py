"""UPDeT (Hu et al. 2021): a transformer over entities and a memory token; each entity's token values the action aimed at it."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from refil.nn.layers import LayerNorm, Linear, Mlp, add_bias, layer_norm, linear, masked_softmax, matmul, mlp, uniform
from refil.nn.time_major import as_it_was, time_first
from refil.types import Beside, Observation, Spec, at_once, entity_inputs, nothing


class Block(eqx.Module):
    """Attention with heads of full width, then a dense layer for each token; both are added to what was there, then normed."""

    query_key_value: Float[Array, "size columns"]
    merge: Linear
    norm_attention: LayerNorm
    feed: Mlp
    norm_feed: LayerNorm
    heads: int = eqx.field(static=True)

    def __call__(
        self, tokens: Float[Array, "*batch tokens size"], seen: Bool[Array, "*batch tokens"]
    ) -> Float[Array, "*batch tokens size"]:
        """Every token asks, only those that are seen answer."""
        columns = matmul(tokens, self.query_key_value)
        columns = columns.reshape(*columns.shape[:-1], 3, self.heads, tokens.shape[-1])
        queries, keys, values = (jnp.swapaxes(columns[..., part, :, :], -3, -2) for part in range(3))
        logits = queries @ jnp.swapaxes(keys, -2, -1) * tokens.shape[-1] ** -0.5
        gathered = jnp.swapaxes(masked_softmax(logits, seen[..., None, None, :]) @ values, -3, -2)
        tokens = self.norm_attention(tokens + self.merge(gathered.reshape(*gathered.shape[:-2], -1)))
        return self.norm_feed(tokens + self.feed(tokens))


class UpdetUtility(eqx.Module):
    """Each agent runs its own sequence: all entities, itself marked, and its memory as one more token."""

    embed: Linear
    blocks: tuple[Block, ...]
    output: Linear
    score: Linear
    last_action_dim: int = eqx.field(static=True)
    aimed: int = eqx.field(static=True)

    def start(self, *batch: int) -> Float[Array, "*batch size"]:
        """An empty memory."""
        return jnp.zeros((*batch, self.output.weight.shape[0]), self.output.weight.dtype)

    def embedded(self, obs: Observation) -> Float[Array, "*batch agents entities size"]:
        """Every entity as every agent's token. Features are the same for all agents, so each marks itself."""
        plain = entity_inputs(obs, self.last_action_dim)
        agents, entities = obs.visible.shape[-2:]
        self_mark = self.embed.weight[-1]
        entity_part = add_bias(matmul(plain, self.embed.weight[:-1]), self.embed.bias)[..., None, :, :]
        marks = jnp.eye(agents, entities, dtype=plain.dtype)[..., None] * self_mark
        return add_bias(jnp.broadcast_to(entity_part, (*obs.visible.shape, entity_part.shape[-1])), marks)

    def think(
        self,
        memory: Float[Array, "*batch agents size"],
        embedded: Float[Array, "*batch agents entities size"],
        view: Bool[Array, "*batch agents entities"],
    ) -> tuple[Float[Array, "*batch agents size"], Float[Array, "*batch agents entities basic"]]:
        """The memory after one more instant, and the scores of every token; the memory token is always seen."""
        tokens = jnp.concatenate([embedded, memory[..., None, :]], axis=-2)
        seen = jnp.concatenate([view, jnp.ones_like(view[..., :1])], axis=-1)
        for block in self.blocks:
            tokens = block(tokens, seen)
        tokens = self.output(tokens)
        return tokens[..., -1, :], self.score(tokens[..., :-1, :])

    def utilities(
        self, scores: Float[Array, "*batch agents entities basic"], obs: Observation
    ) -> Float[Array, "*batch agents actions"]:
        """Basic actions from an agent's own token, aimed ones from the mean score of the token that they are aimed at.

        What an agent does not see at all it cannot aim at, and that is worth nothing; what only a view leaves out it can.
        """
        agents = scores.shape[-3]
        own = jnp.einsum("...aab->...ab", scores[..., :agents, :])
        q = own
        if self.aimed:
            assert obs.targeting_action is not None
            basic = own.shape[-1]
            aims = obs.targeting_action[..., :, None] == basic + jnp.arange(self.aimed)
            by_entity = jnp.where(obs.visible, scores.mean(axis=-1), 0.0)
            q = jnp.concatenate([own, by_entity @ aims.astype(scores.dtype)], axis=-1)
        return jnp.where(obs.agent_present[..., None], q.astype(jnp.float32), 0.0)

    def step(
        self, memory: Array, obs: Observation, key: PRNGKeyArray | None = None
    ) -> tuple[Array, Float[Array, "*batch agents actions"]]:
        """The memory after one more instant, and its utilities, through what is visible."""
        memory, scores = self.think(memory, self.embedded(obs), obs.visible)
        return jnp.where(obs.agent_present[..., None], memory, 0.0), self.utilities(scores, obs)

    def unroll(
        self,
        obs: Observation,
        views: Bool[Array, "views *batch time agents entities"],
        key: PRNGKeyArray | None = None,
        beside: Beside = nothing,
    ) -> tuple[Float[Array, "views *batch time agents actions"], PyTree]:
        """Utilities of whole episodes, each view with a memory of its own: the whole network runs instant by instant.

        There is no long kernel in that which others could run beside.
        """
        exact = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), self)  # its gradient is a sum over instants

        def instant(memory: Array, now: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
            working = jax.tree.map(lambda leaf, given: leaf.astype(given.dtype), exact, self)
            embedded, view, first, acting = now
            memory = jnp.where(first[..., None, None], 0.0, memory)
            embedded = jnp.broadcast_to(embedded, (*view.shape, embedded.shape[-1]))
            memory, scores = working.think(memory, embedded, view)
            return jnp.where(acting[..., None], memory, 0.0), scores

        read = (self.embedded(obs), 3), (views, 2), (obs.is_first, 0), (obs.agent_present, 1)
        in_turn = tuple(time_first(obs.turns, leaf, behind) for leaf, behind in read)
        empty = self.start(*in_turn[1].shape[1:-1])
        scores = as_it_was(obs.turns, jax.lax.scan(instant, empty, in_turn)[1], behind=3)
        return self.utilities(scores, obs), beside(at_once)


def updet_utility(spec: Spec, size: int, heads: int, depth: int, last_action: bool, key: PRNGKeyArray) -> UpdetUtility:
    """A fresh utility."""
    key_embed, key_blocks, key_output, key_score = jax.random.split(key, 4)
    last_action_dim = spec.actions if last_action else 0
    return UpdetUtility(
        embed=linear(spec.features + last_action_dim + 1, size, key_embed),
        blocks=tuple(block(size, heads, k) for k in jax.random.split(key_blocks, depth)),
        output=linear(size, size, key_output),
        score=linear(size, spec.actions - spec.aimed, key_score),
        last_action_dim=last_action_dim,
        aimed=spec.aimed,
    )


def block(size: int, heads: int, key: PRNGKeyArray) -> Block:
    """A fresh block."""
    key_attention, key_merge, key_feed = jax.random.split(key, 3)
    return Block(
        query_key_value=uniform(key_attention, (size, 3 * heads * size), size),
        merge=linear(heads * size, size, key_merge),
        norm_attention=layer_norm(size),
        feed=mlp((size, 4 * size, size), key_feed),
        norm_feed=layer_norm(size),
        heads=heads,
    )
