"""Shards: the devices that train one seed together, each with its part of the environments and of every batch.

The state of training is whole on each of these devices. Each device plays in its own environments and learns from its own rows.
Their results are gathered or summed, so that all devices continue with the same state. Programs of a device that has its
seeds to itself never enter this file: `current` holds None.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

AXIS = "shards"  # name of these devices in the mesh of all devices


class Shards(NamedTuple):
    """The number of devices that share a seed, and whether each has a part of every batch, or all of it."""

    count: int
    share_batches: bool

    @property
    def index(self) -> Int[Array, ""]:
        """This device's position among those that share its seeds."""
        return jax.lax.axis_index(AXIS)

    def own(self, tree: PyTree, axis: int) -> PyTree:
        """Return this device's part of all arrays along an axis; if their lengths do not divide, rows are repeated."""

        def take(leaf: Array) -> Array:
            length = leaf.shape[axis]
            size = -(-length // self.count)
            rows = (self.index * size + jnp.arange(size)) % length
            return jnp.take(leaf, rows, axis=axis, mode="clip")

        return jax.tree.map(take, tree)

    def gather(self, tree: PyTree, axis: int, length: int) -> PyTree:
        """Return whole arrays, of this length along an axis, from every device's part: the inverse of `own`."""

        def gather_leaf(leaf: Array) -> Array:
            return jax.lax.slice_in_dim(jax.lax.all_gather(leaf, AXIS, axis=axis, tiled=True), 0, length, axis=axis)

        return jax.tree.map(gather_leaf, tree)

    def divide(self, function: Callable[..., PyTree], axis: int, *trees: PyTree) -> PyTree:
        """Apply a function to this device's part of arrays, and return the results of all devices."""
        (length,) = {leaf.shape[axis] for leaf in jax.tree.leaves(trees)}
        return self.gather(function(*self.own(trees, axis)), axis, length)

    def total(self, tree: PyTree) -> PyTree:
        """Add up what the devices have."""
        return jax.lax.psum(tree, AXIS)

    def largest(self, values: Array) -> Array:
        """Return the largest of the devices' values, entry by entry."""
        return jax.lax.pmax(values, AXIS)

    def combine(self, results: PyTree) -> PyTree:
        """Return the gradient and the metrics of a whole batch: the sum of every device's part.

        Where all devices computed the same from the whole batch, the mean gives them the same bits: they never drift apart.
        """
        return self.total(results) if self.share_batches else jax.lax.pmean(results, AXIS)


current: ContextVar[Shards | None] = ContextVar("shards", default=None)  # those of the program that is being traced


@contextmanager
def shared_by(shards: Shards | None) -> Iterator[None]:
    """Trace a part of a program for devices that share seeds."""
    token = current.set(shards)
    try:
        yield
    finally:
        current.reset(token)
