"""Maps over rows, initialised as PyTorch does it: every weight and bias uniform within 1/sqrt(fan in)."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray


def in_a_row() -> int:
    """How many instants a scan over time writes out one after another: on a GPU the turns of a loop cost as much as a step."""
    return 1 if jax.default_backend() == "cpu" else 8


def uniform(key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int) -> Array:
    """PyTorch's default for dense and recurrent layers."""
    bound = fan_in**-0.5
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def multiply(rows: Float[Array, "*batch inputs"], weight: Float[Array, "inputs outputs"]) -> Float[Array, "*batch outputs"]:
    """rows @ weight as one flat product: with more axes, XLA's gradient for the CPU is three times slower."""
    return (rows.reshape(-1, rows.shape[-1]) @ weight).reshape(*rows.shape[:-1], weight.shape[-1])


class Linear(eqx.Module):
    """rows @ weight + bias."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, rows: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return multiply(rows, self.weight) + self.bias

    def then(self, following: "Linear") -> "Linear":
        """This map and the following one as one map: nothing non-linear stands between them."""
        return Linear(self.weight @ following.weight, self.bias @ following.weight + following.bias)


def linear(inputs: int, outputs: int, key: PRNGKeyArray) -> Linear:
    """A fresh dense layer."""
    key_weight, key_bias = jax.random.split(key)
    return Linear(uniform(key_weight, (inputs, outputs), inputs), uniform(key_bias, (outputs,), inputs))


class Gru(eqx.Module):
    """A gated recurrent unit in PyTorch's form: reset gate after the hidden product, and a bias on either side.

    Columns of the weights are the gates in the order reset, update, new.
    """

    from_input: Linear
    from_memory: Linear

    def __call__(self, gates: Float[Array, "*batch gates"], memory: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        """The next memory, given the input's share of the gates (`from_input` of the input)."""
        return step(gates, self.from_memory(memory), memory)[0]

    def unroll(
        self, inputs: Float[Array, "time *batch inputs"], first: Bool[Array, "time ..."]
    ) -> Float[Array, "time *batch size"]:
        """The memory after each instant, starting from nothing wherever an instant is the first."""
        return remember_all(self.from_memory, self.from_input(inputs), first)


@jax.custom_vjp
def remember_all(
    from_memory: Linear, gates: Float[Array, "time *batch gates"], first: Bool[Array, "time ..."]
) -> Float[Array, "time *batch size"]:
    """All memories, given the inputs' shares of the gates.

    The gradient is written out because a scan's own does more in every instant than it must: here only what depends on the
    next instant is done instant by instant, one product; all else, the weights' gradient too, is one product over all of them.
    """
    return remember_in_turn(from_memory, gates, first)[0]


def remember_in_turn(from_memory: Linear, gates: Array, first: Array) -> tuple[Array, Array, Array, Array, Array]:
    """All memories, and with each its gates and new content (see `step`)."""

    def instant(memory: Array, now: tuple[Array, Array]) -> tuple[Array, tuple[Array, ...]]:
        gates, first = now
        memory = jnp.where(first, 0.0, memory)
        after = step(gates, from_memory(memory), memory)
        return after[0], after

    nothing = jnp.zeros((*gates.shape[1:-1], gates.shape[-1] // 3), gates.dtype)
    return jax.lax.scan(instant, nothing, (gates, first), unroll=in_a_row())[1]


def step(gates: Array, recalled: Array, memory: Array) -> tuple[Array, Array, Array, Array, Array]:
    """The next memory, the reset and update gates, the new content, and the memory's part in that."""
    reset_in, update_in, new_in = jnp.split(gates, 3, axis=-1)
    reset_mem, update_mem, new_mem = jnp.split(recalled, 3, axis=-1)
    reset, update = jax.nn.sigmoid(reset_in + reset_mem), jax.nn.sigmoid(update_in + update_mem)
    new = jnp.tanh(new_in + reset * new_mem)
    return (1 - update) * new + update * memory, reset, update, new, new_mem


def remember_forward(from_memory: Linear, gates: Array, first: Array) -> tuple[Array, tuple[Linear, Array, tuple[Array, ...]]]:
    """All memories, and what their gradient needs."""
    after = remember_in_turn(from_memory, gates, first)
    return after[0], (from_memory, first, after)


def remember_backward(kept: tuple[Linear, Array, tuple[Array, ...]], gradient: Array) -> tuple[Linear, Array, None]:
    """Each gate's gradient is the memory's times a factor that is known beforehand."""
    from_memory, first, (memories, reset, update, new, new_mem) = kept
    before = jnp.where(first, 0.0, jnp.concatenate([jnp.zeros_like(memories[:1]), memories[:-1]]))
    by_new = (1 - update) * (1 - new**2)
    by_reset, by_update = by_new * new_mem * reset * (1 - reset), (before - new) * update * (1 - update)
    by_recalled = jnp.stack([by_reset, by_update, by_new * reset], axis=-2)

    def instant(later: Array, now: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        gradient, by_recalled, update, first = now
        total = gradient + later
        recalled = flat(total[..., None, :] * by_recalled)
        return jnp.where(first, 0.0, total * update + multiply(recalled, from_memory.weight.T)), total

    total = jax.lax.scan(
        instant, jnp.zeros_like(gradient[0]), (gradient, by_recalled, update, first), reverse=True, unroll=in_a_row()
    )[1]
    recalled = flat(total[..., None, :] * by_recalled)
    rows, columns = before.reshape(-1, before.shape[-1]), recalled.reshape(-1, recalled.shape[-1])
    given = jnp.concatenate([recalled[..., : -total.shape[-1]], total * by_new], axis=-1)
    return Linear(rows.T @ columns, columns.sum(axis=0)), given, None


def flat(parts: Float[Array, "*batch parts size"]) -> Float[Array, "*batch columns"]:
    """Parts side by side."""
    return parts.reshape(*parts.shape[:-2], -1)


remember_all.defvjp(remember_forward, remember_backward)


def gru(inputs: int, size: int, key: PRNGKeyArray) -> Gru:
    """A fresh recurrent unit; PyTorch draws all of it within 1/sqrt(size)."""
    shapes = ((inputs, 3 * size), (3 * size,), (size, 3 * size), (3 * size,))
    weights = [uniform(k, shape, size) for k, shape in zip(jax.random.split(key, 4), shapes, strict=True)]
    return Gru(Linear(*weights[:2]), Linear(*weights[2:]))


class Mlp(eqx.Module):
    """Dense layers with ReLU between them."""

    layers: tuple[Linear, ...]

    def __call__(self, rows: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        for layer in self.layers[:-1]:
            rows = jax.nn.relu(layer(rows))
        return self.layers[-1](rows)


def mlp(widths: tuple[int, ...], key: PRNGKeyArray) -> Mlp:
    """Fresh dense layers from the first of these widths to the last."""
    keys = jax.random.split(key, len(widths) - 1)
    return Mlp(tuple(linear(*pair, k) for pair, k in zip(itertools.pairwise(widths), keys, strict=True)))


class LayerNorm(eqx.Module):
    """Rows with mean 0 and variance 1, then scaled and shifted column by column, with PyTorch's epsilon."""

    scale: Float[Array, " size"]
    shift: Float[Array, " size"]

    def __call__(self, rows: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        centred = rows - rows.mean(axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * self.scale + self.shift


def layer_norm(size: int) -> LayerNorm:
    """A fresh one."""
    return LayerNorm(jnp.ones(size), jnp.zeros(size))
