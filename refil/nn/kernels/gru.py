"""The two loops of the recurrent unit as one GPU kernel each: the weights stay on the chip for the whole sequence.

A loop over time in XLA starts several kernels an instant; with a few hundred rows that costs more than the arithmetic.
Here a program takes 16 rows through all instants. The plain loops in `gru.py` say what is computed.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Float

from refil.nn.kernels.pallas import LEAST, available, power_of_two, triton

WARPS = 8  # for 16 rows that is many, but every instant waits for the one before
AHEAD = 2  # instants ahead that what an instant reads is fetched, so that none waits for it while other kernels use the memory


def fits(weight: Float[Array, "size gates"]) -> bool:
    """Whether the kernels can be used for this width."""
    return available() and weight.shape[0] >= LEAST and power_of_two(weight.shape[0])


def remember(
    weight: Float[Array, "size gates"],
    biases: Float[Array, "2 gates"],
    gates: Float[Array, "time rows gates"],
    first: Bool[Array, "time rows 1"],
    interpret: bool = False,
) -> Float[Array, "time rows size"]:
    """`gru.remember`."""
    return through_time(remember_rows, [weight, biases], [gates, continues(first)], [len(weight)], interpret)[0]


def trace_back(
    weight: Float[Array, "size gates"],
    biases: Float[Array, "2 gates"],
    gates: Float[Array, "time rows gates"],
    before: Float[Array, "time rows size"],
    first: Bool[Array, "time rows 1"],
    gradient: Float[Array, "time rows size"],
    interpret: bool = False,
) -> tuple[Float[Array, "time rows gates"], Float[Array, "time rows size"]]:
    """`gru.trace_back`, with all gates worked out again: that is quicker than to write them down and to read them."""
    by_row = [gates, before, continues(first), gradient]
    given, recalled = through_time(trace_back_rows, [weight, biases], by_row, [weight.shape[1], len(weight)], interpret)
    return given, recalled


def continues(first: Bool[Array, "time rows 1"]) -> Float[Array, "time rows"]:
    """1 where the memory before counts, 0 at the first instant of an episode."""
    return 1.0 - first[..., 0]


def through_time(
    kernel: Callable[..., None], whole: list[Array], by_row: list[Array], widths: list[int], interpret: bool
) -> list[Float[Array, "time rows _"]]:
    """Run a kernel that takes all of some arrays, and a few rows of others at all instants; what it gives has these widths."""
    time, rows = by_row[0].shape[:2]
    padded = [jnp.pad(leaf, [(0, 0), (0, -rows % LEAST)] + [(0, 0)] * (leaf.ndim - 2)) for leaf in by_row]
    shared = [pl.BlockSpec(leaf.shape, lambda i, dims=leaf.ndim: (0,) * dims) for leaf in whole]
    block = [pl.BlockSpec((time, LEAST, *leaf.shape[2:]), lambda i, dims=leaf.ndim: (0, i, 0)[:dims]) for leaf in padded]
    results = pl.pallas_call(
        partial(kernel, time, len(whole[0])),
        out_shape=[jax.ShapeDtypeStruct((time, padded[0].shape[1], width), by_row[0].dtype) for width in widths],
        grid=(padded[0].shape[1] // LEAST,),
        in_specs=shared + block,
        out_specs=[pl.BlockSpec((time, LEAST, width), lambda i: (0, i, 0)) for width in widths],
        compiler_params=triton.CompilerParams(num_warps=WARPS),
        interpret=interpret,
    )(*whole, *padded)
    return [result[:, :rows] for result in results]


def remember_rows(time: int, size: int, weight_ref, biases_ref, gates_ref, continues_ref, memory_ref) -> None:
    """Every memory of these rows."""
    parts = [pl.ds(part * size, size) for part in range(3)]
    kind = gates_ref.dtype  # of products; the memory itself is float32
    weights = [weight_ref[:, part].astype(kind) for part in parts]
    of_input, of_memory = ([biases_ref[side, part][None, :] for part in parts] for side in range(2))
    reset_bias, update_bias = of_input[0] + of_memory[0], of_input[1] + of_memory[1]

    def fetch(instant):
        instant = jnp.minimum(instant, time - 1)
        return [gates_ref[instant, :, part] for part in parts], continues_ref[instant][:, None]

    def step(instant, carried):
        memory, ((given, continuing), *waiting) = carried
        waiting.append(fetch(instant + AHEAD))
        given = [part.astype(jnp.float32) for part in given]
        memory = memory * continuing
        reset, update, new = (jnp.dot(memory.astype(kind), weight, preferred_element_type=jnp.float32) for weight in weights)
        reset, update = jax.nn.sigmoid(given[0] + reset + reset_bias), jax.nn.sigmoid(given[1] + update + update_bias)
        new = jnp.tanh(given[2] + of_input[2] + reset * (new + of_memory[2]))
        memory = (1 - update) * new + update * memory
        memory_ref[instant] = memory.astype(memory_ref.dtype)
        return memory, waiting

    jax.lax.fori_loop(0, time, step, (jnp.zeros((LEAST, size)), [fetch(instant) for instant in range(AHEAD)]))


def trace_back_rows(
    time: int, size: int, weight_ref, biases_ref, gates_ref, before_ref, continues_ref, gradient_ref, given_ref, recalled_ref
) -> None:
    """From the last instant of these rows to the first."""
    parts = [pl.ds(part * size, size) for part in range(3)]
    kind = gradient_ref.dtype
    weights = [weight_ref[:, part].astype(kind) for part in parts]
    back = [weight_ref[:, part].T.astype(kind) for part in parts]
    of_input, of_memory = ([biases_ref[side, part][None, :] for part in parts] for side in range(2))
    reset_bias, update_bias = of_input[0] + of_memory[0], of_input[1] + of_memory[1]

    def fetch(turn):
        instant = jnp.maximum(time - 1 - turn, 0)
        return (
            [gates_ref[instant, :, part] for part in parts],
            before_ref[instant],
            continues_ref[instant][:, None],
            gradient_ref[instant],
        )

    def factors(gates, before):
        """Known before what comes later is: no instant waits for another's."""
        gates = [part.astype(jnp.float32) for part in gates]
        reset, update, new_mem = (jnp.dot(before, weight, preferred_element_type=jnp.float32) for weight in weights)
        reset, update = jax.nn.sigmoid(gates[0] + reset + reset_bias), jax.nn.sigmoid(gates[1] + update + update_bias)
        new_mem += of_memory[2]
        new = jnp.tanh(gates[2] + of_input[2] + reset * new_mem)
        by_new = (1 - update) * (1 - new * new)
        by_update = (before.astype(jnp.float32) - new) * update * (1 - update)
        return by_new * new_mem * reset * (1 - reset), by_update, by_new, by_new * reset, update

    def step(turn, carried):
        later, (now, *waiting) = carried
        waiting.append(fetch(turn + AHEAD))
        gates, before, continuing, gradient = now
        by_reset, by_update, by_new, by_new_mem, update = factors(gates, before)
        instant, total = time - 1 - turn, gradient.astype(jnp.float32) + later
        given = [(total * by).astype(kind) for by in (by_reset, by_update, by_new)]
        recalled = (total * by_new_mem).astype(kind)
        for part, values in zip(parts, given, strict=True):
            given_ref[instant, :, part] = values
        recalled_ref[instant] = recalled
        later = total * update
        for by, weight in zip((*given[:2], recalled), back, strict=True):
            later += jnp.dot(by, weight, preferred_element_type=jnp.float32)
        return later * continuing, waiting

    jax.lax.fori_loop(0, time, step, (jnp.zeros((LEAST, size)), [fetch(turn) for turn in range(AHEAD)]))
