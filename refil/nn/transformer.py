"""UPDeT (Hu et al. 2021): a transformer over entities and a memory token; an entity's token scores the action aimed at it."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nn.layer_norm import LayerNorm, layer_norm
from refil.nn.layers import Linear, Mlp, add_bias, linear, masked_softmax, matmul, mlp, uniform
from refil.nn.utilities import entity_inputs
from refil.types import Observation, Spec


class Block(eqx.Module):
    """A transformer block with heads of full width: attention, then a feed-forward layer, each with residual and norm."""

    query_key_value: Float[Array, "size columns"]
    merge: Linear
    norm_attention: LayerNorm
    feed: Mlp
    norm_feed: LayerNorm
    heads: int = eqx.field(static=True)

    def __call__(
        self, tokens: Float[Array, "*batch tokens size"], visible: Bool[Array, "*batch tokens"]
    ) -> Float[Array, "*batch tokens size"]:
        """Every token attends to the visible ones."""
        columns = matmul(tokens, self.query_key_value)
        columns = columns.reshape(*columns.shape[:-1], 3, self.heads, tokens.shape[-1])
        queries, keys, values = (jnp.swapaxes(columns[..., part, :, :], -3, -2) for part in range(3))
        logits = queries @ jnp.swapaxes(keys, -2, -1) * tokens.shape[-1] ** -0.5
        attended = jnp.swapaxes(masked_softmax(logits, visible[..., None, None, :]) @ values, -3, -2)
        tokens = self.norm_attention(tokens + self.merge(attended.reshape(*attended.shape[:-2], -1)))
        return self.norm_feed(tokens + self.feed(tokens))


class Inputs(eqx.Module):
    """Inputs of the transformer at one timestep; tokens are the same for all views."""

    tokens: Float[Array, "one *batch agents entities size"]
    view: Bool[Array, "views *batch agents entities"]
    agent_present: Bool[Array, "one *batch agents"]


class UpdetUtility(eqx.Module):
    """Each agent runs its own sequence: all entities, itself marked, and its memory as one more token."""

    embed: Linear
    blocks: tuple[Block, ...]
    output: Linear
    head: Linear
    last_action_dim: int = eqx.field(static=True)
    target_actions: int = eqx.field(static=True)

    def initial_state(self, *batch: int) -> Float[Array, "*batch size"]:
        """Return the memory token before the first timestep."""
        return jnp.zeros((*batch, self.output.weight.shape[0]), self.output.weight.dtype)

    def encode(self, obs: Observation, views: Bool[Array, "views *batch agents entities"]) -> Inputs:
        """Embed every entity as a token of every agent; entity features are the same for all agents, so each marks itself."""
        inputs = entity_inputs(obs, self.last_action_dim)
        agents, entities = obs.visible.shape[-2:]
        shared = add_bias(matmul(inputs, self.embed.weight[:-1]), self.embed.bias)[..., None, :, :]
        self_mark = jnp.eye(agents, entities, dtype=inputs.dtype)[..., None] * self.embed.weight[-1]
        tokens = add_bias(jnp.broadcast_to(shared, (*obs.visible.shape, shared.shape[-1])), self_mark)
        return Inputs(tokens[None], views, obs.agent_present[None])

    def recur(
        self, state: Float[Array, "*batch agents size"], inputs: Inputs
    ) -> tuple[Float[Array, "*batch agents size"], Float[Array, "*batch agents entities basic"]]:
        """Return the next memory token and the scores of every entity's token; the memory token is always visible."""
        entities = jnp.broadcast_to(inputs.tokens, (*inputs.view.shape, inputs.tokens.shape[-1]))
        tokens = jnp.concatenate([entities, state[..., None, :].astype(entities.dtype)], axis=-2)
        visible = jnp.concatenate([inputs.view, jnp.ones_like(inputs.view[..., :1])], axis=-1)
        for block in self.blocks:
            tokens = block(tokens, visible)
        tokens = self.output(tokens)
        return jnp.where(inputs.agent_present[..., None], tokens[..., -1, :], 0.0), self.head(tokens[..., :-1, :])

    def q_values(
        self, features: Float[Array, "views *batch agents entities basic"], obs: Observation
    ) -> Float[Array, "views *batch agents actions"]:
        """Score basic actions by the agent's own token, and each targeted action by the mean score of its target's token.

        An action aimed at an entity that the agent does not see has value 0; a view that hides an entity does not change that.
        """
        agents = features.shape[-3]
        q = jnp.einsum("...aab->...ab", features[..., :agents, :])
        if self.target_actions:
            assert obs.targeting_action is not None
            aimed = obs.targeting_action[..., :, None] == q.shape[-1] + jnp.arange(self.target_actions)
            by_entity = jnp.where(obs.visible, features.mean(axis=-1), 0.0)
            q = jnp.concatenate([q, by_entity @ aimed.astype(features.dtype)], axis=-1)
        return q


def updet_utility(spec: Spec, size: int, heads: int, depth: int, last_action: bool, key: PRNGKeyArray) -> UpdetUtility:
    """Initialize a UPDeT utility."""
    key_embed, key_blocks, key_output, key_head = jax.random.split(key, 4)
    last_action_dim = spec.actions if last_action else 0
    return UpdetUtility(
        embed=linear(spec.features + last_action_dim + 1, size, key_embed),
        blocks=tuple(_block(size, heads, k) for k in jax.random.split(key_blocks, depth)),
        output=linear(size, size, key_output),
        head=linear(size, spec.actions - spec.target_actions, key_head),
        last_action_dim=last_action_dim,
        target_actions=spec.target_actions,
    )


def _block(size: int, heads: int, key: PRNGKeyArray) -> Block:
    key_attention, key_merge, key_feed = jax.random.split(key, 3)
    return Block(
        query_key_value=uniform(key_attention, (size, 3 * heads * size), size),
        merge=linear(heads * size, size, key_merge),
        norm_attention=layer_norm(size),
        feed=mlp((size, 4 * size, size), key_feed),
        norm_feed=layer_norm(size),
        heads=heads,
    )
