"""All ticks of an environment step as one GPU kernel: a few battles stay on the chip from the first tick to the last.

XLA compiles a tick into some twenty kernels, most of them a reduction over pairs of units, and each waits for the one before.
This kernel traces the code of `tick.py` itself. All code that a tick calls must therefore avoid what Triton does not support:
indexing (`refil.kernels.gather` takes its place), constant arrays, `any` and `all` over an axis, axes whose length is not a
power of two, selecting between two scalars, and JAX functions that expand to these (`hypot`, `select`).
"""

from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

from refil import hardware
from refil.envs.starcraft.sim.rules import TICKS_PER_STEP
from refil.envs.starcraft.sim.state import NOBODY, Game, State
from refil.envs.starcraft.sim.tick import tick
from refil.hardware import kernels
from refil.kernels.call import kernel_call
from refil.kernels.program import Options

LANES = 32  # threads of a warp; each computes one unit with all its pairs
FIELDS = [field.name for field in fields(State) if field.name not in ("time", "multipliers")]  # arrays that change


class Plan(NamedTuple):
    """How the kernel simulates battles."""

    num_warps: int = 1  # of a block
    near_only: bool = False  # when units move they look only at those that are near


# By the largest number of units. Only Triton gathers values, without which looking for units that are near would not pay.
# Chosen by counting instructions (docs/measurements.md), except for up to 16 units, and 32 with Pallas, which were timed.
PLANS = {
    "Triton": {16: Plan(), 32: Plan(1, near_only=True), 64: Plan(2, near_only=True), 128: Plan(8, near_only=True)},
    "Pallas": {32: Plan()},
}


def is_supported(state: State) -> bool:
    """Return whether the kernel can simulate these battles on this machine."""
    return kernels().yes and state.x.ndim > 1 and plan_for(len(state.x)) is not None


def plan_for(units: int) -> Plan | None:
    """Return the plan for battles of this size, if the kernel simulates them."""
    plans = PLANS[hardware.compiler() or "Triton"]
    return next((plan for largest, plan in plans.items() if units <= largest), None)


def battles_per_block(units: int) -> int:
    """Return how many battles one block of threads simulates."""
    return max(LANES // pl.next_power_of_2(units), 1)


def run_ticks(
    state: State, jitter: Float[Array, " units *batch"], game: Game, interpret: bool = False, plan: Plan | None = None
) -> State:
    """Simulate all ticks of one step; `jitter` is as in `tick`."""
    plan = plan or plan_for(len(state.x)) or Plan()
    units, *batch = state.x.shape
    battles, slots, block_size = jitter[0].size, pl.next_power_of_2(units), battles_per_block(units)
    constants, structure = jax.tree.flatten((state.multipliers, jitter))
    flat = [leaf.reshape(units, battles) for leaf in [*(getattr(state, name) for name in FIELDS), *constants]]
    padding = (0, slots - units), (0, -battles % block_size)
    empty = [NOBODY if name == "unit_type" else 0 for name in FIELDS] + [0] * len(constants)
    inputs = [jnp.pad(leaf, padding, constant_values=value) for leaf, value in zip(flat, empty, strict=True)]
    inputs = [leaf.astype(jnp.int8) if leaf.dtype == bool else leaf for leaf in inputs]
    block = pl.BlockSpec((slots, block_size), lambda i: (0, i))
    inside = replace(game, num_units=slots, in_kernel=True, near_only=plan.near_only)
    outputs = kernel_call(
        partial(_kernel, [leaf.dtype for leaf in flat], structure, inside),
        grid=(pl.cdiv(battles, block_size),),
        in_specs=[block] * len(inputs),
        out_specs=[block] * len(FIELDS),
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in inputs[: len(FIELDS)]],
        options=Options(num_warps=plan.num_warps, num_stages=1, fp_fusion=False, interpret=interpret, name="game_ticks"),
    )(*inputs)
    after = [leaf[:units, :battles].reshape(units, *batch) for leaf in outputs]
    return replace(
        state, **{name: leaf.astype(old.dtype) for name, leaf, old in zip(FIELDS, after, flat[: len(FIELDS)], strict=True)}
    )


def _kernel(dtypes: list[jnp.dtype], structure: Any, game: Game, *refs) -> None:
    inputs, outputs = refs[: len(dtypes)], refs[len(dtypes) :]
    leaves = [_widen(ref[...], dtype) for ref, dtype in zip(inputs, dtypes, strict=True)]
    multipliers, jitter = jax.tree.unflatten(structure, leaves[len(FIELDS) :])
    changing, time = dict(zip(FIELDS, leaves[: len(FIELDS)], strict=True)), jnp.zeros(jitter.shape[1:], jnp.int32)
    state = State(**changing, time=time, multipliers=multipliers)
    stats = game.stats(state)
    after = jax.lax.fori_loop(0, TICKS_PER_STEP, lambda _, now: tick(now, stats, jitter, game), state)
    for name, ref in zip(FIELDS, outputs, strict=True):
        ref[...] = getattr(after, name).astype(ref.dtype)


def _widen(values: Array, dtype: jnp.dtype) -> Array:
    # The kernel computes with 32 bits; booleans arrive as int8.
    return values != 0 if dtype == jnp.bool_ else values.astype(jnp.promote_types(dtype, jnp.int32))
