"""Pooling in place of attention: entities in view are averaged, or their largest features taken (paper, section 4.2)."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nn.layers import Linear, linear

Kind = Literal["mean", "max"]
LOWEST = -1e9


class PooledReading(eqx.Module):
    """An instant after the products that no view changes."""

    values: Float[Array, "*batch entities size"]
    output: Linear
    kind: Kind = eqx.field(static=True)
    exact: bool = eqx.field(static=True)

    def through(self, views: Bool[Array, "views *batch agents entities"]) -> Float[Array, "views *batch agents outputs"]:
        """What each agent pools from the entities in view; as the authors have it, those out of view count as zeros."""
        return self.output(self.mean(views) if self.kind == "mean" else self.largest(views))

    def mean(self, views: Bool[Array, "views *batch agents entities"]) -> Float[Array, "views *batch agents size"]:
        """The mean over all slots, or exactly over what is in view."""
        seen = views.astype(self.values.dtype)
        count = jnp.maximum(seen.sum(axis=-1, keepdims=True), 1.0) if self.exact else views.shape[-1]
        return seen @ self.values / count

    def largest(self, views: Bool[Array, "views *batch agents entities"]) -> Float[Array, "views *batch agents size"]:
        """The largest of zero and what is in view, or exactly the largest in view."""
        hidden = LOWEST if self.exact else 0.0
        pooled = jnp.where(views[..., None], self.values[..., None, :, :], hidden).max(axis=-2)
        return jnp.where(views.any(axis=-1, keepdims=True), pooled, 0.0)


class Pooling(eqx.Module):
    """A layer over a set that reads like attention does; all agents with the same view pool the same."""

    value: Linear
    output: Linear
    kind: Kind = eqx.field(static=True)
    exact: bool = eqx.field(static=True)

    def read(self, rows: Float[Array, "*batch entities size"], following: Linear | None = None) -> PooledReading:
        """Prepare to look at these rows; `following` is a linear layer to apply to what is pooled."""
        output = self.output if following is None else self.output.then(following)
        return PooledReading(self.value(rows), output, self.kind, self.exact)


def pooling(size: int, kind: Kind, exact: bool, key: PRNGKeyArray) -> Pooling:
    """A fresh pooling layer."""
    key_value, key_output = jax.random.split(key)
    return Pooling(linear(size, size, key_value), linear(size, size, key_output), kind, exact)
