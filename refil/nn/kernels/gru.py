"""The GRU's forward and backward scan as one GPU kernel each, with the weights kept on the chip for the whole sequence.

A scan in XLA launches several kernels per timestep; with a few hundred rows that takes longer than the arithmetic.
Here one program of the kernel takes 16 rows through all timesteps. `refil.nn.gru` defines what the kernels compute.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Float

from refil.hardware import kernels
from refil.kernels.call import kernel_call
from refil.kernels.program import Options
from refil.nn.kernels.blocks import MIN_BLOCK, is_power_of_two

NUM_WARPS = 8  # many for 16 rows, but each timestep waits for the one before, so latency matters most
PREFETCH = 2  # timesteps that inputs are loaded ahead, so that loads do not stall the scan while other kernels use the memory


def fits(weight: Float[Array, "size gates"]) -> bool:
    """Return whether the kernels support this hidden size and can run here."""
    return kernels().yes and weight.shape[0] >= MIN_BLOCK and is_power_of_two(weight.shape[0])


def gru_scan(
    weight: Float[Array, "size gates"],
    biases: Float[Array, "2 gates"],
    gates: Float[Array, "views time rows gates"],
    is_first: Bool[Array, "views time rows 1"],
    start: Float[Array, "views rows size"] | None = None,
    interpret: bool = False,
) -> Float[Array, "views time rows size"]:
    """Compute `refil.nn.gru.gru_scan`; `interpret` runs the kernel on a CPU, for tests."""
    return _scan(weight, biases, gates, is_first, start, 1, interpret)[0]


def gru_scan_with_previous(
    weight: Float[Array, "size gates"],
    biases: Float[Array, "2 gates"],
    gates: Float[Array, "views time rows gates"],
    is_first: Bool[Array, "views time rows 1"],
    start: Float[Array, "views rows size"] | None = None,
    interpret: bool = False,
) -> tuple[Float[Array, "views time rows size"], Float[Array, "views time rows size"]]:
    """Also return the hidden state that each timestep starts from, after resets; the backward pass needs it."""
    hiddens, previous = _scan(weight, biases, gates, is_first, start, 2, interpret)
    return hiddens, previous


def _scan(
    weight: Array, biases: Array, gates: Array, is_first: Array, start: Array | None, outputs: int, interpret: bool
) -> list[Array]:
    by_row = [gates, _carry_mask(is_first), *([] if start is None else [start.astype(jnp.float32)[:, None]])]
    return _run(partial(_scan_program, outputs), [weight, biases], by_row, [len(weight)] * outputs, interpret)


def gru_scan_backward(
    weight: Float[Array, "size gates"],
    biases: Float[Array, "2 gates"],
    gates: Float[Array, "views time rows gates"],
    previous: Float[Array, "views time rows size"],
    is_first: Bool[Array, "views time rows 1"],
    gradient: Float[Array, "views time rows size"],
    interpret: bool = False,
) -> tuple[Float[Array, "views time rows gates"], Float[Array, "views time rows size"]]:
    """Compute `refil.nn.gru.gru_scan_backward`, recomputing all activations: that is faster than storing and loading them."""
    by_row = [gates, previous, _carry_mask(is_first), gradient]
    gates_grad, new_grad = _run(_backward_program, [weight, biases], by_row, [weight.shape[1], len(weight)], interpret)
    return gates_grad, new_grad


def _carry_mask(is_first: Bool[Array, "views time rows 1"]) -> Float[Array, "views time rows"]:
    """Return 1 where the hidden state carries over from the timestep before, and 0 at the first timestep of an episode."""
    return 1.0 - is_first[..., 0]


def _run(
    kernel: Callable[..., None], shared: list[Array], by_row: list[Array], widths: list[int], interpret: bool
) -> list[Float[Array, "views time rows _"]]:
    """Run a kernel whose programs get all of `shared` and 16 rows of a view of `by_row`; its outputs have these widths."""
    views, time, rows = by_row[0].shape[:3]
    padded = [jnp.pad(leaf, [(0, 0), (0, 0), (0, -rows % MIN_BLOCK)] + [(0, 0)] * (leaf.ndim - 3)) for leaf in by_row]
    shared_specs = [pl.BlockSpec(leaf.shape, lambda view, i, dims=leaf.ndim: (0,) * dims) for leaf in shared]
    row_specs = [
        pl.BlockSpec((None, leaf.shape[1], MIN_BLOCK, *leaf.shape[3:]), lambda view, i, dims=leaf.ndim: (view, 0, i, 0)[:dims])
        for leaf in padded
    ]
    outputs = kernel_call(
        partial(kernel, time, len(shared[0])),
        out_shape=[jax.ShapeDtypeStruct((views, time, padded[0].shape[2], width), by_row[0].dtype) for width in widths],
        grid=(views, padded[0].shape[2] // MIN_BLOCK),
        in_specs=shared_specs + row_specs,
        out_specs=[pl.BlockSpec((None, time, MIN_BLOCK, width), lambda view, i: (view, 0, i, 0)) for width in widths],
        options=Options(num_warps=NUM_WARPS, interpret=interpret),
    )(*shared, *padded)
    return [output[:, :, :rows] for output in outputs]


def _scan_program(outputs: int, time: int, size: int, weight_ref, biases_ref, gates_ref, carry_ref, *rest) -> None:
    start_ref, (hidden_ref, *previous_ref) = rest[:-outputs], rest[-outputs:]
    parts = [pl.ds(part * size, size) for part in range(3)]
    dtype = gates_ref.dtype  # type of the products' factors; the hidden state itself is float32
    weights = [weight_ref[:, part].astype(dtype) for part in parts]
    input_bias, hidden_bias = ([biases_ref[side, part][None, :] for part in parts] for side in range(2))
    reset_bias, update_bias = input_bias[0] + hidden_bias[0], input_bias[1] + hidden_bias[1]

    def fetch(timestep):
        timestep = jnp.minimum(timestep, time - 1)
        return [gates_ref[timestep, :, part] for part in parts], carry_ref[timestep][:, None]

    def step(timestep, state):
        hidden, ((gates, carry), *fetched) = state
        fetched.append(fetch(timestep + PREFETCH))
        gates = [part.astype(jnp.float32) for part in gates]
        hidden = hidden * carry
        for ref in previous_ref:
            ref[timestep] = hidden.astype(ref.dtype)
        reset, update, new = (jnp.dot(hidden.astype(dtype), weight, preferred_element_type=jnp.float32) for weight in weights)
        reset, update = jax.nn.sigmoid(gates[0] + reset + reset_bias), jax.nn.sigmoid(gates[1] + update + update_bias)
        new = jnp.tanh(gates[2] + input_bias[2] + reset * (new + hidden_bias[2]))
        hidden = (1 - update) * new + update * hidden
        hidden_ref[timestep] = hidden.astype(hidden_ref.dtype)
        return hidden, fetched

    start = start_ref[0][0] if start_ref else jnp.zeros((MIN_BLOCK, size))
    jax.lax.fori_loop(0, time, step, (start, [fetch(timestep) for timestep in range(PREFETCH)]))


def _backward_program(
    time: int, size: int, weight_ref, biases_ref, gates_ref, previous_ref, carry_ref, gradient_ref, gates_grad_ref, new_grad_ref
) -> None:
    parts = [pl.ds(part * size, size) for part in range(3)]
    dtype = gradient_ref.dtype
    weights = [weight_ref[:, part].astype(dtype) for part in parts]
    transposed = [weight_ref[:, part].T.astype(dtype) for part in parts]
    input_bias, hidden_bias = ([biases_ref[side, part][None, :] for part in parts] for side in range(2))
    reset_bias, update_bias = input_bias[0] + hidden_bias[0], input_bias[1] + hidden_bias[1]

    def fetch(steps_back):
        timestep = jnp.maximum(time - 1 - steps_back, 0)
        return (
            [gates_ref[timestep, :, part] for part in parts],
            previous_ref[timestep],
            carry_ref[timestep][:, None],
            gradient_ref[timestep],
        )

    def derivatives(gates, previous):
        """Return the hidden state's derivatives by the gates' inputs; they do not depend on later timesteps."""
        gates = [part.astype(jnp.float32) for part in gates]
        reset, update, new_hidden = (jnp.dot(previous, weight, preferred_element_type=jnp.float32) for weight in weights)
        reset, update = jax.nn.sigmoid(gates[0] + reset + reset_bias), jax.nn.sigmoid(gates[1] + update + update_bias)
        new_hidden += hidden_bias[2]
        new = jnp.tanh(gates[2] + input_bias[2] + reset * new_hidden)
        d_new = (1 - update) * (1 - new * new)
        d_update = (previous.astype(jnp.float32) - new) * update * (1 - update)
        return d_new * new_hidden * reset * (1 - reset), d_update, d_new, d_new * reset, update

    def step(steps_back, state):
        later, (inputs, *fetched) = state
        fetched.append(fetch(steps_back + PREFETCH))
        gates, previous, carry, gradient = inputs
        d_reset, d_update, d_new, d_new_hidden, update = derivatives(gates, previous)
        timestep, total = time - 1 - steps_back, gradient.astype(jnp.float32) + later
        gates_grad = [(total * derivative).astype(dtype) for derivative in (d_reset, d_update, d_new)]
        new_grad = (total * d_new_hidden).astype(dtype)
        for part, values in zip(parts, gates_grad, strict=True):
            gates_grad_ref[timestep, :, part] = values
        new_grad_ref[timestep] = new_grad
        later = total * update
        for part_grad, weight in zip((*gates_grad[:2], new_grad), transposed, strict=True):
            later += jnp.dot(part_grad, weight, preferred_element_type=jnp.float32)
        return later * carry, fetched

    jax.lax.fori_loop(0, time, step, (jnp.zeros((MIN_BLOCK, size)), [fetch(timestep) for timestep in range(PREFETCH)]))
