"""UPDeT's memory token over whole episodes as one GPU kernel forward and one backward.

One timestep is small: 17 tokens of size 32 pass through two blocks of 20,000 weights each. In XLA it takes dozens of kernels,
forward and backward, for every timestep. Here one program takes one agent through all timesteps and reads the weights from the
cache. The backward kernel recomputes each timestep. `refil.nn.memory_token` defines what the kernels compute.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

from refil.hardware import kernels
from refil.kernels.call import kernel_call, load, store
from refil.kernels.program import Options
from refil.nn.kernels.blocks import MIN_BLOCK, is_power_of_two
from refil.nn.kernels.tiles import dense, every_row, pick, place, transform

NUM_WARPS = 4
PREFETCH = 1  # timesteps that inputs are loaded ahead
MAX_SIZE, MAX_TOKENS = 32, 32  # the registers would overflow with more or larger tokens


def fits(layers: Any, inputs: Any) -> bool:
    """Return whether the kernels support these sizes and can run here."""
    size, tokens = inputs.tokens.shape[-1], inputs.tokens.shape[-2] + 1
    return kernels().yes and MIN_BLOCK <= size <= MAX_SIZE and is_power_of_two(size) and tokens <= MAX_TOKENS


def forward(
    layers: Any, inputs: Any, is_first: Array, start: Array | None = None, interpret: bool = False
) -> tuple[Float[Array, "views time rows agents tokens size"], Float[Array, "views time rows agents size"]]:
    """Compute `refil.nn.memory_token.memory_steps`; `interpret` runs the kernel on a CPU, for tests."""
    size, tokens = inputs.tokens.shape[-1], inputs.tokens.shape[-2] + 1
    by_view = [] if start is None else [start.astype(inputs.tokens.dtype)[:, None]]
    tokens, previous = _run(_forward_program, layers, inputs, is_first, by_view, [(tokens, size), (size,)], interpret)
    return tokens, previous


def backward(
    layers: Any, inputs: Any, is_first: Array, previous: Array, gradient: Array, interpret: bool = False
) -> Float[Array, "views time rows agents size"]:
    """Compute `refil.nn.memory_token.memory_scan_backward`."""
    by_view = [previous, gradient.astype(previous.dtype)]
    return _run(_backward_program, layers, inputs, is_first, by_view, [previous.shape[-1:]], interpret)[0]


def _run(
    kernel: Callable[..., None],
    layers: Any,
    inputs: Any,
    is_first: Array,
    by_view: list[Array],
    outputs: list[tuple[int, ...]],
    interpret: bool,
) -> list[Array]:
    """Run a kernel with one program for each view and agent; its outputs have these shapes at each timestep."""
    views, time, rows, agents = inputs.view.shape[:-1]
    weights, structure = jax.tree.flatten(jax.tree.map(lambda leaf: leaf.astype(inputs.tokens.dtype), layers))
    carry = jnp.broadcast_to(~is_first[..., 0], inputs.agent_present.shape)
    shared = [leaf.astype(jnp.float32) for leaf in (carry, inputs.agent_present)]
    arrays = [inputs.tokens, *shared, inputs.view.astype(jnp.int8), *by_view]
    arrays = [leaf.reshape(*leaf.shape[:2], rows * agents, *leaf.shape[4:]) for leaf in arrays]
    results = kernel_call(
        partial(kernel, structure, time),
        out_shape=[jax.ShapeDtypeStruct((views, time, rows * agents, *shape), inputs.tokens.dtype) for shape in outputs],
        grid=(views, rows * agents),
        in_specs=[pl.BlockSpec(leaf.shape, lambda view, i, dims=leaf.ndim: (0,) * dims) for leaf in weights]
        + [_sequence_spec(leaf.shape, leaf.shape[0] > 1) for leaf in arrays],
        out_specs=[_sequence_spec((views, time, rows * agents, *shape), True) for shape in outputs],
        options=Options(num_warps=NUM_WARPS, num_stages=1, interpret=interpret),
    )(*weights, *arrays)
    return [leaf.reshape(views, time, rows, agents, *leaf.shape[3:]) for leaf in results]


def _sequence_spec(shape: tuple[int, ...], by_view: bool) -> pl.BlockSpec:
    """Return the block of all timesteps of one agent."""
    rest = (0,) * (len(shape) - 3)
    return pl.BlockSpec((None, shape[1], None, *shape[3:]), lambda view, i: (view if by_view else 0, 0, i, *rest))


def _forward_program(structure, time: int, *refs) -> None:
    layers, tokens_ref, carry_ref, present_ref, view_ref, *start_ref, outputs_ref, previous_ref = _unflatten(structure, refs)
    entities, size = tokens_ref.shape[-2:]

    def fetch(timestep):
        timestep = jnp.minimum(timestep, time - 1)
        tokens, visible = _load_rows(tokens_ref, timestep, entities + 1), _load_visible(view_ref, timestep)
        return tokens, visible, carry_ref[timestep], present_ref[timestep]

    def step(timestep, state):
        memory, ((tokens, visible, carry, present), *fetched) = state
        fetched.append(fetch(timestep + PREFETCH))
        memory = memory * carry
        previous_ref[timestep] = memory.astype(previous_ref.dtype)
        tokens, memory, _ = _timestep(layers, tokens, visible, memory, entities)
        rows, exists = _rows_of(outputs_ref, timestep, entities + 1)
        store(rows, tokens.astype(outputs_ref.dtype), mask=exists)
        # The next timestep sees what the backward pass will see.
        return (memory * present).astype(outputs_ref.dtype).astype(jnp.float32), fetched

    start = start_ref[0][0].astype(jnp.float32) if start_ref else jnp.zeros(size)
    jax.lax.fori_loop(0, time, step, (start, [fetch(timestep) for timestep in range(PREFETCH)]))


def _backward_program(structure, time: int, *refs) -> None:
    layers, tokens_ref, carry_ref, present_ref, view_ref, previous_ref, gradient_ref, memory_grad_ref = _unflatten(
        structure, refs
    )
    entities, size = tokens_ref.shape[-2:]

    def fetch(steps_back):
        timestep = jnp.maximum(time - 1 - steps_back, 0)
        tokens, visible = _load_rows(tokens_ref, timestep, entities + 1), _load_visible(view_ref, timestep)
        gradient = _load_rows(gradient_ref, timestep, entities + 1)
        return tokens, visible, carry_ref[timestep], present_ref[timestep], previous_ref[timestep], gradient

    def step(steps_back, state):
        later, ((tokens, visible, carry, present, previous, gradient), *fetched) = state
        fetched.append(fetch(steps_back + PREFETCH))
        pullback = _timestep(layers, tokens, visible, previous.astype(jnp.float32), entities)[2]
        memory_grad = (later * present).astype(memory_grad_ref.dtype)
        # This write is also why the weights are read again below instead of being kept in registers.
        memory_grad_ref[time - 1 - steps_back] = memory_grad
        return pullback(memory_grad.astype(jnp.float32), gradient.astype(jnp.float32)) * carry, fetched

    jax.lax.fori_loop(0, time, step, (jnp.zeros(size), [fetch(timestep) for timestep in range(PREFETCH)]))


def _unflatten(structure, refs: tuple) -> list:
    """Return the layers with references as leaves, followed by the other references."""
    return [jax.tree.unflatten(structure, refs[: structure.num_leaves]), *refs[structure.num_leaves :]]


def _rows_of(ref, timestep, count: int) -> tuple[Any, Array]:
    """Return where the rows of a timestep lie, for a block with a power of two rows for `count`, and which of them exist."""
    shape = max(MIN_BLOCK, pl.next_power_of_2(count)), ref.shape[-1]
    row = jnp.arange(shape[0])[:, None]
    return ref.at[timestep, row, jnp.arange(shape[1])[None, :]], jnp.broadcast_to(row < ref.shape[-2], shape)


def _load_rows(ref, timestep, count: int) -> Array:
    rows, exists = _rows_of(ref, timestep, count)
    return load(rows, mask=exists, other=0)


def _load_visible(view_ref, timestep) -> Array:
    """Return which tokens are attended to, as a row; the memory token comes after the entities and always is."""
    entities = view_ref.shape[-1]
    token = jnp.arange(max(MIN_BLOCK, pl.next_power_of_2(entities + 1)))
    view = load(view_ref.at[timestep, token], mask=token < entities, other=0)
    return ((view != 0) | (token == entities))[None, :]


def _timestep(layers: Any, tokens: Array, visible: Array, memory: Array, entities: int) -> tuple[Array, Array, Any]:
    """Return the tokens that the last block reads, the next memory token, and the pullback from both to the memory token."""
    rows = len(tokens)
    tokens = tokens.astype(jnp.float32) + place(memory, entities, rows)
    pullbacks = []
    for block in layers.blocks[:-1]:
        tokens, pullback = transform(block, tokens, tokens, visible)
        pullbacks.append(pullback)
    last = place(pick(tokens, entities), 0, MIN_BLOCK)
    last, last_pullback = transform(layers.blocks[-1], last, tokens, visible)
    memory, output_pullback = dense(layers.output, last)

    def only_memory(gradient: Array) -> Array:
        return place(pick(gradient, entities), 0, MIN_BLOCK)

    def pull_back(memory_grad: Array, tokens_grad: Array) -> Array:
        by_last, by_tokens = last_pullback(output_pullback(place(memory_grad, 0, MIN_BLOCK)))
        gradient = tokens_grad + by_tokens + place(pick(by_last, 0), entities, rows)
        for number, pullback in reversed(list(enumerate(pullbacks))):
            by_rows, by_tokens = pullback(gradient, only_memory if number == 0 else every_row)
            gradient = by_rows + by_tokens
        return pick(gradient, 0 if pullbacks else entities)

    return tokens, pick(memory, 0), pull_back
