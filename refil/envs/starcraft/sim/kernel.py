"""All game loops of a step as one GPU kernel: a few battles stay on the chip from the first loop to the last.

XLA makes some twenty kernels of a loop, most of them a reduction over pairs of units, and each waits for the one before.
The kernel does what `tick.py` says, by tracing that very code. So all that it calls has to do without what Triton lacks:
looking up by index (`world.of` compares instead), arrays of constants, `any` and `all` over an axis, axes whose length
is no power of two, choosing between two plain numbers, and what JAX makes of such things (`hypot`, `select`).
"""

from dataclasses import fields, replace
from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

from refil.envs.starcraft.sim.rules import LOOPS
from refil.envs.starcraft.sim.state import NOBODY, Game, World
from refil.envs.starcraft.sim.tick import tick
from refil.nn.kernels.pallas import available, triton

LARGEST = 32  # battles in units; with the pairs of more, XLA is as fast
LANES = 32  # of a warp, each with one unit and all its pairs
FIELDS = [field.name for field in fields(World) if field.name != "time"]  # what there is of every unit


def fits(world: World) -> bool:
    """Whether the kernel can be used for these battles."""
    return available() and world.x.ndim > 1 and len(world.x) <= LARGEST


def pass_loops(world: World, jitter: Float[Array, "units *batch"], game: Game, interpret: bool = False) -> World:
    """The battles after all loops of a step; `jitter` as in `tick`."""
    units, *batch = world.x.shape
    battles, slots = jitter[0].size, pl.next_power_of_2(units)
    together = max(LANES // slots, 1)
    flat = [getattr(world, name).reshape(units, battles) for name in FIELDS] + [jitter.reshape(units, battles)]
    margin = (0, slots - units), (0, -battles % together)
    empty = [NOBODY if name == "kind" else 0 for name in FIELDS] + [0]
    inputs = [jnp.pad(leaf, margin, constant_values=value) for leaf, value in zip(flat, empty, strict=True)]
    inputs = [leaf.astype(jnp.int8) if leaf.dtype == bool else leaf for leaf in inputs]
    block = pl.BlockSpec((slots, together), lambda i: (0, i))
    outputs = pl.pallas_call(
        partial(program, [leaf.dtype for leaf in flat], replace(game, units=slots, in_kernel=True)),
        grid=(pl.cdiv(battles, together),),
        in_specs=[block] * len(inputs),
        out_specs=[block] * len(FIELDS),
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in inputs[:-1]],
        compiler_params=triton and triton.CompilerParams(num_warps=1, num_stages=1),
        interpret=interpret,
        name="game_loops",
    )(*inputs)
    after = [leaf[:units, :battles].reshape(units, *batch) for leaf in outputs]
    return replace(world, **{name: leaf.astype(old.dtype) for name, leaf, old in zip(FIELDS, after, flat[:-1], strict=True)})


def program(kinds: list[jnp.dtype], game: Game, *refs) -> None:
    """A few battles from the first loop to the last; of these kinds are the numbers that are read, all 32 bits wide here."""
    read, write = refs[: len(kinds)], refs[len(kinds) :]
    *given, jitter = (widened(ref[...], kind) for ref, kind in zip(read, kinds, strict=True))
    world = World(**dict(zip(FIELDS, given, strict=True)), time=jnp.zeros(jitter.shape[1:], jnp.int32))
    traits = game.table[world.kind]
    after = jax.lax.fori_loop(0, LOOPS, lambda _, now: tick(now, traits, jitter, game), world)
    for name, ref in zip(FIELDS, write, strict=True):
        ref[...] = getattr(after, name).astype(ref.dtype)


def widened(values: Array, kind: jnp.dtype) -> Array:
    """Numbers that were of this kind, as a program computes with them."""
    return values != 0 if kind == jnp.bool_ else values.astype(jnp.promote_types(kind, jnp.int32))
