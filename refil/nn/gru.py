"""A gated recurrent unit (GRU) over whole episodes, with a hand-written gradient.

JAX's gradient of a scan computes everything timestep by timestep. Here the backward scan contains only what depends on the
next timestep; everything else, the gradients of weights and biases included, is one product over all timesteps.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from refil.hardware import on_gpu
from refil.nn.kernels import gru as gru_kernel
from refil.nn.layers import Linear, matmul, uniform, weight_gradient

Activations = tuple[Float[Array, "..."], ...]  # reset, update, new and new_hidden, as `gru_step` returns them


class Gru(eqx.Module):
    """A GRU in PyTorch's form: the reset gate acts after the hidden state's product, and both products have a bias.

    The columns of both weights are the gates in the order reset, update, new.
    """

    input_proj: Linear
    hidden_proj: Linear

    def __call__(self, gates: Float[Array, "*batch gates"], hidden: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        """Return the next hidden state; `gates` is `input_proj` of the input, bias included."""
        return gru_step(gates, self.hidden_proj(hidden), hidden)[0]

    def project_inputs(self, inputs: Float[Array, "*batch inputs"]) -> Float[Array, "*batch gates"]:
        """Return the inputs' part of all gates, without its bias: `unroll` adds that."""
        return matmul(inputs, self.input_proj.weight)

    def unroll(
        self,
        gates: Float[Array, "views time *batch gates"],
        is_first: Bool[Array, "#views time ..."],
        start: Float[Array, "views *batch size"] | None = None,
    ) -> Float[Array, "views time *batch size"]:
        """Return the hidden state after each timestep; it is reset to zero before timesteps where `is_first` is true.

        `gates` comes from `project_inputs`. `is_first` broadcasts against the axes of `gates`, with a last axis of size 1.
        `start` is the hidden state before the first timestep (None: zero); it has no gradient.
        """
        rows = gates.reshape(*gates.shape[:2], -1, gates.shape[-1])
        is_first = jnp.broadcast_to(is_first, (*gates.shape[:-1], 1)).reshape(*rows.shape[:3], 1)
        parameters = self.hidden_proj.weight, jnp.stack([self.input_proj.bias, self.hidden_proj.bias])
        exact = (leaf.astype(jnp.float32) for leaf in parameters)  # rounding errors would accumulate over time
        first_hidden = None if start is None else start.reshape(len(start), -1, start.shape[-1])
        return gru_scan(*exact, rows, is_first, first_hidden).reshape(*gates.shape[:-1], -1)


def gru(inputs: int, size: int, key: PRNGKeyArray) -> Gru:
    """Initialize a GRU; as in PyTorch, all parameters are uniform within 1/sqrt(size)."""
    shapes = ((inputs, 3 * size), (3 * size,), (size, 3 * size), (3 * size,))
    weights = [uniform(k, shape, size) for k, shape in zip(jax.random.split(key, 4), shapes, strict=True)]
    return Gru(Linear(*weights[:2]), Linear(*weights[2:]))


def gru_step(input_gates: Array, hidden_gates: Array, hidden: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Return the next hidden state, the reset gate, the update gate, the new content, and the hidden state's part in it."""
    reset_input, update_input, new_input = jnp.split(input_gates, 3, axis=-1)
    reset_hidden, update_hidden, new_hidden = jnp.split(hidden_gates, 3, axis=-1)
    reset, update = jax.nn.sigmoid(reset_input + reset_hidden), jax.nn.sigmoid(update_input + update_hidden)
    new = jnp.tanh(new_input + reset * new_hidden)
    return (1 - update) * new + update * hidden, reset, update, new, new_hidden


@jax.custom_vjp
def gru_scan(
    weight: Float[Array, "size gates"],
    biases: Float[Array, "2 gates"],
    gates: Float[Array, "views time rows gates"],
    is_first: Bool[Array, "views time rows 1"],
    start: Float[Array, "views rows size"] | None = None,
) -> Float[Array, "views time rows size"]:
    """Return the hidden state after each timestep, computed in float32 and returned in the dtype of `gates`.

    `gates` is the inputs' part without its bias. Both biases, the inputs' first, are added inside the scan, because adding
    the inputs' bias beforehand would cost a pass over all timesteps.
    """
    if _use_kernel(weight):
        return gru_kernel.gru_scan(weight, biases, gates, is_first, start)
    return gru_steps(weight, biases, gates, is_first, start)[0]


def _use_kernel(weight: Array) -> bool:
    return on_gpu() and gru_kernel.fits(weight)


def _gru_scan_fwd(
    weight: Array, biases: Array, gates: Array, is_first: Array, start: Array | None
) -> tuple[Array, tuple[Any, ...]]:
    if _use_kernel(weight):  # its backward kernel recomputes the activations
        hiddens, previous = gru_kernel.gru_scan_with_previous(weight, biases, gates, is_first, start)
        activations = None
    else:
        hiddens, *activations = gru_steps(weight, biases, gates, is_first, start)
        before = jnp.zeros_like(hiddens[:, :1]) if start is None else start[:, None].astype(hiddens.dtype)
        previous = jnp.where(is_first, 0, jnp.concatenate([before, hiddens[:, :-1]], axis=1))
    return hiddens, (weight, biases, gates, is_first, start, previous, activations)


def _gru_scan_bwd(residuals: tuple[Any, ...], gradient: Array) -> tuple[Array, Array, Array, None, Array | None]:
    weight, biases, gates, is_first, start, previous, activations = residuals
    if activations is None:
        gates_grad, new_grad = gru_kernel.gru_scan_backward(weight, biases, gates, previous, is_first, gradient)
    else:
        gates_grad, new_grad = gru_scan_backward(weight, tuple(activations), previous, is_first, gradient)
    # The reset and update gates are sums of the inputs' and the hidden state's part, so both parts have the same gradient.
    # Only in the new content they differ, because the reset gate multiplies the hidden state's part.
    shared = 2 * len(weight)
    input_side, hidden_side = (_dense_gradients(previous, each) for each in (gates_grad, new_grad))
    by_weight = jnp.concatenate([input_side[0][:, :shared], hidden_side[0]], axis=-1)
    by_biases = jnp.stack([input_side[1], jnp.concatenate([input_side[1][:shared], hidden_side[1]])])
    return by_weight, by_biases, gates_grad, None, None if start is None else jnp.zeros_like(start)


def _dense_gradients(inputs: Array, gradient: Array) -> tuple[Float[Array, "size columns"], Float[Array, " columns"]]:
    """Return the gradients of weight and bias of a dense layer over all timesteps and rows."""
    flat = (array.reshape(-1, array.shape[-1]) for array in (inputs, gradient))
    return weight_gradient(*flat), gradient.sum(axis=(0, 1, 2), dtype=jnp.float32)


gru_scan.defvjp(_gru_scan_fwd, _gru_scan_bwd)


def scan_time(step: Callable[..., Any], init: Any, arrays: Any, reverse: bool = False) -> Any:
    """Return the outputs of `jax.lax.scan` over the second axis of the arrays, the first being the views."""
    time_major = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), arrays)
    return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), jax.lax.scan(step, init, time_major, reverse=reverse)[1])


def gru_steps(
    weight: Array, biases: Array, gates: Array, is_first: Array, start: Array | None = None
) -> tuple[Array, Array, Array, Array, Array]:
    """Compute `gru_scan` without the GPU kernel; also return the activations of every timestep (see `gru_step`)."""

    def step(hidden: Array, inputs: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array, Array, Array, Array]]:
        gates, is_first = inputs
        hidden = jnp.where(is_first, 0.0, hidden)
        hidden, reset, update, new, new_hidden = gru_step(gates + biases[0], matmul(hidden, weight) + biases[1], hidden)
        return hidden, (hidden.astype(gates.dtype), reset, update, new, new_hidden)

    shape = len(gates), gates.shape[2], len(weight)
    return scan_time(step, jnp.zeros(shape) if start is None else start.astype(jnp.float32), (gates, is_first))


def gru_scan_backward(
    weight: Float[Array, "size gates"],
    activations: Activations,
    previous: Float[Array, "views time rows size"],
    is_first: Bool[Array, "views time rows 1"],
    gradient: Float[Array, "views time rows size"],
) -> tuple[Float[Array, "views time rows gates"], Float[Array, "views time rows size"]]:
    """Return the gradient of the gates' inputs, and that of `new_hidden`, the hidden state's part in the new content.

    `previous` is the hidden state that each timestep starts from, after resets. The scan runs from the last timestep to the
    first and only accumulates the hidden state's total gradient. All derivatives of the gates with respect to their inputs
    are known before it starts.
    """
    reset, update, new, new_hidden = activations
    d_new = (1 - update) * (1 - new**2)
    d_hidden_gates = d_new * new_hidden * reset * (1 - reset), (previous - new) * update * (1 - update), d_new * reset

    def step(later: Array, inputs: tuple[Array, Activations, Array, Array]) -> tuple[Array, Array]:
        gradient, d_hidden_gates, update, is_first = inputs
        total = gradient + later
        hidden_gates_grad = jnp.concatenate([total * part for part in d_hidden_gates], axis=-1)
        return jnp.where(is_first, 0.0, total * update + matmul(hidden_gates_grad, weight.T)), total

    zeros = jnp.zeros((len(gradient), *gradient.shape[2:]))
    total = scan_time(step, zeros, (gradient, d_hidden_gates, update, is_first), reverse=True)
    gates_grad = jnp.concatenate([total * part for part in (*d_hidden_gates[:2], d_new)], axis=-1)
    return gates_grad.astype(gradient.dtype), (total * d_hidden_gates[2]).astype(gradient.dtype)
