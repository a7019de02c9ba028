"""A gated recurrent unit over whole episodes, with its gradient written out.

A scan's own gradient does more in every instant than it must. Here only what depends on the instant before (or after) is
done instant by instant; all else, the weights' gradient too, is one product over all instants.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.nn.kernels import gru as gru_kernel
from refil.nn.layers import Linear, columns_together, multiply, uniform

Parts = tuple[Float[Array, "..."], ...]  # what memories were made of (see `step`)


class Gru(eqx.Module):
    """A gated recurrent unit in PyTorch's form: reset gate after the hidden product, and a bias on either side.

    Columns of the weights are the gates in the order reset, update, new.
    """

    from_input: Linear
    from_memory: Linear

    def __call__(self, gates: Float[Array, "*batch gates"], memory: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        """The next memory, given the input's share of the gates (`from_input` of the input, its bias included)."""
        return step(gates, self.from_memory(memory), memory)[0]

    def shares(self, inputs: Float[Array, "time *batch inputs"]) -> Float[Array, "time *batch gates"]:
        """The inputs' shares of all gates, without their bias."""
        return multiply(inputs, self.from_input.weight)

    def unroll(
        self, shares: Float[Array, "time *batch gates"], first: Bool[Array, "time ..."]
    ) -> Float[Array, "time *batch size"]:
        """The memory after each instant, starting from nothing wherever an instant is the first."""
        gates = shares.reshape(len(shares), -1, shares.shape[-1])
        first = jnp.broadcast_to(first, (*shares.shape[:-1], 1)).reshape(*gates.shape[:2], 1)
        weights = self.from_memory.weight, jnp.stack([self.from_input.bias, self.from_memory.bias])
        exact = (leaf.astype(jnp.float32) for leaf in weights)  # rounding would add up over time
        return remember_all(*exact, gates, first).reshape(*shares.shape[:-1], -1)


def gru(inputs: int, size: int, key: PRNGKeyArray) -> Gru:
    """A fresh recurrent unit; PyTorch draws all of it within 1/sqrt(size)."""
    shapes = ((inputs, 3 * size), (3 * size,), (size, 3 * size), (3 * size,))
    weights = [uniform(k, shape, size) for k, shape in zip(jax.random.split(key, 4), shapes, strict=True)]
    return Gru(Linear(*weights[:2]), Linear(*weights[2:]))


def step(gates: Array, recalled: Array, memory: Array) -> tuple[Array, Array, Array, Array, Array]:
    """The next memory, the reset and update gates, the new content, and the memory's part in that."""
    reset_in, update_in, new_in = jnp.split(gates, 3, axis=-1)
    reset_mem, update_mem, new_mem = jnp.split(recalled, 3, axis=-1)
    reset, update = jax.nn.sigmoid(reset_in + reset_mem), jax.nn.sigmoid(update_in + update_mem)
    new = jnp.tanh(new_in + reset * new_mem)
    return (1 - update) * new + update * memory, reset, update, new, new_mem


@jax.custom_vjp
def remember_all(
    weight: Float[Array, "size gates"],
    biases: Float[Array, "2 gates"],
    gates: Float[Array, "time rows gates"],
    first: Bool[Array, "time rows 1"],
) -> Float[Array, "time rows size"]:
    """All memories, given the inputs' shares of the gates without their bias, and as exact as these; in between float32.

    The first of the biases is the inputs': added here, it costs no pass over all instants.
    """
    forward = gru_kernel.remember if gru_kernel.fits(weight) else remember
    return forward(weight, biases, gates, first)


def remember_forward(weight: Array, biases: Array, gates: Array, first: Array) -> tuple[Array, tuple[Any, ...]]:
    """All memories, and what their gradient needs: from the plain loop every instant's gates, from the kernel nothing more."""
    if gru_kernel.fits(weight):
        memories, opened = remember_all(weight, biases, gates, first), None
    else:
        memories, *opened = in_turn(weight, biases, gates, first)
    return memories, (weight, biases, gates, first, memories, opened)


def remember_backward(kept: tuple[Any, ...], gradient: Array) -> tuple[Array, Array, Array, None]:
    """From the last instant to the first; then weights and biases, over all instants at once."""
    weight, biases, gates, first, memories, opened = kept
    before = jnp.where(first, 0, jnp.concatenate([jnp.zeros_like(memories[:1]), memories[:-1]]))
    if opened is None:
        given, recalled = gru_kernel.trace_back(weight, biases, gates, before, first, gradient)
    else:
        given, recalled = trace_back(weight, tuple(opened), before, first, gradient)
    # What inputs and memories give to a gate is added up, so that both have the same gradient; but for the new content's.
    alike = 2 * len(weight)
    products, sums = zip(*(by_weight_and_bias(before, each) for each in (given, recalled)), strict=True)
    by_weight = jnp.concatenate([products[0][:, :alike], products[1]], axis=-1)
    by_biases = jnp.stack([sums[0], jnp.concatenate([sums[0][:alike], sums[1]])])
    return by_weight, by_biases, given, None


def by_weight_and_bias(memories: Array, gradient: Array) -> tuple[Float[Array, "size columns"], Float[Array, " columns"]]:
    """Their gradients, of a map from memories to what has this gradient: over all rows and instants."""
    return columns_together(flat(memories), flat(gradient)), gradient.sum(axis=(0, 1), dtype=jnp.float32)


def flat(rows: Float[Array, "time rows size"]) -> Float[Array, "all_rows size"]:
    """Of all instants one after another."""
    return rows.reshape(-1, rows.shape[-1])


remember_all.defvjp(remember_forward, remember_backward)


def remember(
    weight: Float[Array, "size gates"], biases: Float[Array, "2 gates"], gates: Array, first: Bool[Array, "time rows 1"]
) -> Float[Array, "time rows size"]:
    """All memories, one instant after another."""
    return in_turn(weight, biases, gates, first)[0]


def in_turn(weight: Array, biases: Array, gates: Array, first: Array) -> tuple[Array, Array, Array, Array, Array]:
    """The same, and with each memory what it was made of (see `step`)."""

    def instant(memory: Array, now: tuple[Array, Array]) -> tuple[Array, tuple[Array, ...]]:
        gates, first = now
        memory = jnp.where(first, 0.0, memory)
        memory, *opened = step(gates + biases[0], multiply(memory, weight) + biases[1], memory)
        return memory, (memory.astype(gates.dtype), *opened)

    return jax.lax.scan(instant, jnp.zeros((gates.shape[1], len(weight))), (gates, first))[1]


def trace_back(
    weight: Float[Array, "size gates"],
    opened: Parts,
    before: Float[Array, "time rows size"],
    first: Bool[Array, "time rows 1"],
    gradient: Float[Array, "time rows size"],
) -> tuple[Float[Array, "time rows gates"], Float[Array, "time rows size"]]:
    """The gradient of the gates' inputs, and that of the memory's part in the new content: one instant before another.

    What a memory is worth in all, through itself and through those after it, times factors that are known beforehand.
    """
    reset, update, new, new_mem = opened
    by_new = (1 - update) * (1 - new**2)
    by_recalled = by_new * new_mem * reset * (1 - reset), (before - new) * update * (1 - update), by_new * reset

    def instant(later: Array, now: tuple[Array, Parts, Array, Array]) -> tuple[Array, Array]:
        gradient, by_recalled, update, first = now
        total = gradient + later
        recalled = jnp.concatenate([total * part for part in by_recalled], axis=-1)
        return jnp.where(first, 0.0, total * update + multiply(recalled, weight.T)), total

    nothing = jnp.zeros(gradient.shape[1:])
    total = jax.lax.scan(instant, nothing, (gradient, by_recalled, update, first), reverse=True)[1]
    given = jnp.concatenate([total * part for part in (*by_recalled[:2], by_new)], axis=-1)
    return given.astype(gradient.dtype), (total * by_recalled[2]).astype(gradient.dtype)
