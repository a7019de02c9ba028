"""Qatten (Attention): the joint value weighs agents by attention, in several heads (Yang et al. 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.learning.losses import plain
from refil.learning.networks import UtilityOptions, attending, utility, width
from refil.nn.layers import HIDDEN_LOGIT, Linear, linear
from refil.nn.mixers import Hyper, hyper, over_agents
from refil.settings import PositiveInt
from refil.types import Method, MethodInfo, Model, Observation, Spec, entity_inputs

INFO = MethodInfo("Qatten (Attention)", "attention", "Qatten")


@dataclass(frozen=True)
class Config(UtilityOptions):
    """Options of Qatten."""

    mixing_heads: PositiveInt = 4  # ways to weigh the agents
    mixing: PositiveInt = 32  # width of their queries and keys


class QattenContext(eqx.Module):
    """What every value shares at an instant."""

    logits: Float[Array, "*batch heads agents"]
    weights: Float[Array, "*batch heads"]
    bias: Float[Array, "*batch"]


class Qatten(eqx.Module):
    """A positively weighted sum of the utilities: in each head agents share a weight by how their own row answers a query."""

    query: Hyper
    key: Linear
    weights: Hyper
    bias: Hyper
    heads: int = eqx.field(static=True)
    last_action_dim: int = eqx.field(static=True)

    def read(self, obs: Observation, views: Bool[Array, "factors *batch agents entities"]) -> QattenContext:
        """Everything but the utilities, the same for all views."""
        inputs = entity_inputs(obs, self.last_action_dim)
        query = over_agents(self.query.read(inputs), obs)
        query = query.reshape(*query.shape[:-1], self.heads, 1, -1)
        keys = self.key(inputs[..., : obs.visible.shape[-2], :])
        keys = jnp.swapaxes(keys.reshape(*keys.shape[:-1], self.heads, -1), -3, -2)
        logits = (query * keys.astype(jnp.float32)).sum(axis=-1) * keys.shape[-1] ** -0.5
        return QattenContext(
            logits=jnp.where(obs.agent_present[..., None, :], logits, HIDDEN_LOGIT),
            weights=jnp.abs(over_agents(self.weights.read(inputs), obs)),
            bias=over_agents(self.bias.read_mean(inputs), obs)[..., 0],
        )

    def values(
        self, read: QattenContext, utilities: Float[Array, "factors *batch agents"], made_of: Sequence[slice]
    ) -> Float[Array, "values ..."]:
        """All from the same weights."""
        return jnp.stack([self.value(read, utilities[factors]) for factors in made_of])

    def value(self, context: QattenContext, utilities: Float[Array, "factors *batch agents"]) -> Float[Array, "*batch"]:
        """Agents share each head's weight; several factors of an agent share what it has."""
        shares = jax.nn.softmax(context.logits, axis=-1)
        by_head = (shares * utilities.mean(axis=0)[..., None, :]).sum(axis=-1)
        return (context.weights * by_head).sum(axis=-1) + context.bias


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return plain(partial(init, config, spec), config.discount)


def init(config: Config, spec: Spec, key: PRNGKeyArray) -> Model:
    """A fresh model."""
    key_utility, *keys = jax.random.split(key, 5)
    gather, inputs = attending(config.size, config.heads), width(spec, config.last_action)
    wide = config.mixing_heads * config.mixing
    mixer = Qatten(
        query=hyper(inputs, config.size, wide, gather, keys[0]),
        key=linear(inputs, wide, keys[1]),
        weights=hyper(inputs, config.size, config.mixing_heads, gather, keys[2]),
        bias=hyper(inputs, config.size, config.mixing, gather, keys[3]),
        heads=config.mixing_heads,
        last_action_dim=spec.actions if config.last_action else 0,
    )
    return Model(utility(config, spec, gather, key_utility), mixer)
