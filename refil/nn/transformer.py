"""UPDeT (Hu et al. 2021): a transformer over entities and a memory token; an entity's token scores the action aimed at it."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nn.block import Block, block
from refil.nn.kernels import updet as kernel
from refil.nn.layers import Linear, add_bias, linear, matmul
from refil.nn.memory_token import Inputs, Layers, memory_scan
from refil.nn.utilities import entity_inputs, scan_steps
from refil.types import Observation, Spec


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
        tokens = self._layers().before_last(state, inputs)
        tokens = self.output(self.blocks[-1](tokens, inputs.visible()))
        return jnp.where(inputs.agent_present[..., None], tokens[..., -1, :], 0.0), self.head(tokens[..., :-1, :])

    def project_inputs(self, inputs: Inputs) -> Inputs:
        """Return the inputs: nothing is computed from them beforehand."""
        return inputs

    def recur_all(
        self,
        inputs: Inputs,
        is_first: Bool[Array, "1 time rows 1 1"],
        start: Float[Array, "views rows agents size"] | None = None,
    ) -> Float[Array, "views time rows agents entities basic"]:
        """Return the scores of every entity's token after every timestep."""
        if kernel.fits(self._layers(), inputs):
            tokens: Array = memory_scan(self._layers(), inputs, is_first, start)
            return self.head(self.output(self.blocks[-1](tokens, inputs.visible())[..., :-1, :]))
        initial = self.initial_state(len(inputs.view), *inputs.view.shape[2:-1])
        return scan_steps(self, inputs, is_first[..., 0, 0], initial, start)

    def _layers(self) -> Layers:
        return Layers(self.blocks, self.output)

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
        blocks=tuple(block(size, heads, k) for k in jax.random.split(key_blocks, depth)),
        output=linear(size, size, key_output),
        head=linear(size, spec.actions - spec.target_actions, key_head),
        last_action_dim=last_action_dim,
        target_actions=spec.target_actions,
    )
