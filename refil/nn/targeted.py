"""A utility that scores actions aimed at an entity by the features of that entity.

With one output per target, as in REFIL, a network has to learn for every tag on its own what makes a good target. Here all
targets share their weights, so that what is learned about one enemy holds for all, in armies of any size.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from refil.nn.normalized import NormalizedLinear
from refil.nn.utilities import GruUtility, entity_inputs
from refil.types import Observation


class TargetedUtility(GruUtility):
    """A recurrent utility whose actions aimed at entities share one output of the head.

    To that output, the inner product of the agent's query (the last outputs of the head) and the target's embedding is added.
    """

    embed_target: NormalizedLinear
    target_actions: int = eqx.field(static=True)

    def q_values(
        self, features: Float[Array, "views *batch agents hidden"], obs: Observation
    ) -> Float[Array, "views *batch agents actions"]:
        """Score every action; those aimed at an entity that the agent does not see have the value of the head alone.

        As in UPDeT, an imagined view that hides an entity does not change the value of aiming at it.
        """
        assert obs.targeting_action is not None
        targets = self.embed_target(entity_inputs(obs, self.last_action_dim)).astype(jnp.float32)
        outputs, size = self.head(features), targets.shape[-1]
        scores, queries = outputs[..., :-size], outputs[..., -size:]
        basic = scores.shape[-1] - 1
        matches = jnp.einsum("v...ad,...ed->v...ae", queries, targets) * size**-0.5
        aimed = obs.targeting_action[..., :, None] == basic + jnp.arange(self.target_actions)
        by_target = jnp.where(obs.visible, matches, 0.0) @ aimed.astype(jnp.float32)
        return jnp.concatenate([scores[..., :basic], scores[..., basic:] + by_target], axis=-1)
