"""All game loops of a step as one GPU kernel: a few battles stay on the chip from the first loop to the last.

XLA makes some twenty kernels of a loop, most of them a reduction over pairs of units, and each waits for the one before.
The kernel does what `tick.py` says, by tracing that very code.
"""

from dataclasses import fields, replace

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

from refil.envs.combat.rules import LOOPS
from refil.envs.combat.tick import tick
from refil.envs.combat.world import BY_COMPARING, NOBODY, Game, World
from refil.pallas_gpu import available, triton

MOST = 32  # units in a battle; with the pairs of more, XLA is as fast
LANES = 32  # of a warp, each with one unit and all its pairs
UNITS = [field.name for field in fields(World) if field.name != "time"]  # what there is of every unit
FLAGS = ("roams", "going")


def fits(world: World) -> bool:
    """Whether the kernel can be used for these battles."""
    return available() and world.x.ndim > 1 and len(world.x) <= MOST


def pass_loops(world: World, jitter: Float[Array, "units *batch"], game: Game, interpret: bool = False) -> World:
    """The battles after all loops of a step; `jitter` as in `tick`."""
    units, *batch = world.x.shape
    slots = pl.next_power_of_2(units)
    battles = jitter[0].size
    together = max(LANES // slots, 1)

    def laid_out(leaf: Array, empty: int = 0) -> Array:
        rows = leaf.reshape(units, battles)
        return jnp.pad(rows, ((0, slots - units), (0, -battles % together)), constant_values=empty)

    inputs = [laid_out(getattr(world, name), NOBODY if name == "kind" else 0) for name in UNITS]
    inputs = [leaf.astype(jnp.int8) if leaf.dtype == bool else leaf for leaf in inputs]
    block = pl.BlockSpec((slots, together), lambda i: (0, i))

    def kernel(*refs) -> None:
        given, results = refs[: len(UNITS) + 1], refs[len(UNITS) + 1 :]
        after = played(dict(zip(UNITS, (ref[...] for ref in given), strict=False)), given[-1][...], replace(game, units=slots))
        for name, result in zip(UNITS, results, strict=True):
            result[...] = getattr(after, name).astype(result.dtype)

    outputs = pl.pallas_call(
        kernel,
        grid=(pl.cdiv(battles, together),),
        in_specs=[block] * (len(inputs) + 1),
        out_specs=[block] * len(inputs),
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in inputs],
        compiler_params=triton and triton.CompilerParams(num_warps=1, num_stages=1),
        interpret=interpret,
        name="game_loops",
    )(*inputs, laid_out(jitter))
    after = {name: leaf[:units, :battles].reshape(units, *batch) for name, leaf in zip(UNITS, outputs, strict=True)}
    return replace(world, **{name: leaf.astype(getattr(world, name).dtype) for name, leaf in after.items()})


def played(units: dict[str, Array], jitter: Float[Array, "units batch"], game: Game) -> World:
    """The same within a program: of the units, every number is a whole 32 bits."""
    wide = {
        name: leaf != 0 if name in FLAGS else leaf.astype(jnp.promote_types(leaf.dtype, jnp.int32))
        for name, leaf in units.items()
    }
    world = World(**wide, time=jnp.zeros(jitter.shape[1:], jnp.int32))
    compares = BY_COMPARING.set(True)
    try:
        traits = game.table[world.kind]
        return jax.lax.fori_loop(0, LOOPS, lambda _, now: tick(now, traits, jitter, game), world)
    finally:
        BY_COMPARING.reset(compares)
