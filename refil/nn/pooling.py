"""Mean and max pooling over the entities in view, as a replacement for attention (paper, section 4.2)."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nn.layers import Linear, linear

PoolingKind = Literal["mean", "max"]
_LOWEST_VALUE = -1e9  # stands in for entities out of view in an exact maximum


class PooledProjection(eqx.Module):
    """Values of all entities, ready to be pooled through any number of views."""

    values: Float[Array, "*batch entities size"]
    output: Linear
    kind: PoolingKind = eqx.field(static=True)
    exact: bool = eqx.field(static=True)

    def attend(self, views: Bool[Array, "views *batch agents entities"]) -> Float[Array, "views *batch agents outputs"]:
        """Return the layer's output for each view.

        Entities out of view count as zeros, as in the authors' code, unless `exact`. An agent with nothing in view pools zeros.
        """
        return self.output(self._mean(views) if self.kind == "mean" else self._max(views))

    def _mean(self, views: Bool[Array, "views *batch agents entities"]) -> Float[Array, "views *batch agents size"]:
        weights = views.astype(self.values.dtype)
        count = jnp.maximum(weights.sum(axis=-1, keepdims=True), 1.0) if self.exact else views.shape[-1]
        return weights @ self.values / count

    def _max(self, views: Bool[Array, "views *batch agents entities"]) -> Float[Array, "views *batch agents size"]:
        hidden_value = _LOWEST_VALUE if self.exact else 0.0
        pooled = jnp.where(views[..., None], self.values[..., None, :, :], hidden_value).max(axis=-2)
        return jnp.where(views.any(axis=-1, keepdims=True), pooled, 0.0)


class Pooling(eqx.Module):
    """A pooling layer with the interface of `Attention`. It has no queries: agents with equal views get equal outputs."""

    value: Linear
    output: Linear
    kind: PoolingKind = eqx.field(static=True)
    exact: bool = eqx.field(static=True)

    def project(self, entities: Float[Array, "*batch entities size"], following: Linear | None = None) -> PooledProjection:
        """Compute the values of all entities; a dense layer `following` is composed with the output layer."""
        output = self.output if following is None else self.output.compose(following)
        return PooledProjection(self.value(entities), output, self.kind, self.exact)


def pooling(size: int, kind: PoolingKind, exact: bool, key: PRNGKeyArray) -> Pooling:
    """Initialize a pooling layer; `exact` excludes entities out of view instead of counting them as zeros."""
    key_value, key_output = jax.random.split(key)
    return Pooling(linear(size, size, key_value), linear(size, size, key_output), kind, exact)
