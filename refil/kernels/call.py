"""Launch kernels: one program for each point of a grid, compiled on a GPU, interpreted on a CPU in tests.

A kernel is a function of references to blocks of its arguments and results, as in Pallas, so that tests can interpret it and it
can trace functions that plain code also calls. Two compilers take it. Pallas' own Triton backend is deprecated: JAX will remove
it, and its successor for Hopper takes no kernels of this kind. Then the kernel is translated into Triton's language
(`program.py`), compiled by Triton itself and handed to XLA (`launch.py`).
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import PyTree

from refil import hardware
from refil.kernels import launch
from refil.kernels.program import Block, Kernel, Options
from refil.kernels.source import KernelError


def kernel_call(
    body: Callable[..., None],
    out_shape: PyTree,
    grid: tuple[int, ...],
    in_specs: Sequence[pl.BlockSpec],
    out_specs: PyTree,
    options: Options,
) -> Callable[..., Any]:
    """Return a function of arrays that runs a kernel; `grid` and the shapes and specs are those of `pl.pallas_call`."""
    if options.interpret or hardware.compiler() == "Pallas":
        return _pallas_call(body, out_shape, grid, in_specs, out_specs, options)
    shapes, structure = jax.tree.flatten(out_shape)
    in_blocks = tuple(map(_block, in_specs))
    out_blocks = tuple(map(_block, jax.tree.leaves(out_specs, is_leaf=lambda leaf: isinstance(leaf, pl.BlockSpec))))
    kernel = Kernel(body, in_blocks, out_blocks, tuple(shapes), grid, options)
    return lambda *arrays: jax.tree.unflatten(structure, _run(kernel)(*arrays))


def _pallas_call(
    body: Callable[..., None],
    out_shape: PyTree,
    grid: tuple[int, ...],
    in_specs: Sequence[pl.BlockSpec],
    out_specs: PyTree,
    options: Options,
) -> Callable[..., Any]:
    params = None
    if not options.interpret:
        warnings.filterwarnings("ignore", message="The Pallas Triton backend is deprecated")  # the other compiler is ready
        params = hardware.triton.CompilerParams(num_warps=options.num_warps, num_stages=options.num_stages)
    return pl.pallas_call(
        body,
        out_shape=out_shape,
        grid=grid,
        in_specs=list(in_specs),
        out_specs=out_specs,
        compiler_params=params,
        interpret=options.interpret,
        name=options.name,
    )


def _block(spec: pl.BlockSpec) -> Block:
    shape, index_map = spec.block_shape, spec.index_map
    if shape is None or index_map is None or not all(size is None or isinstance(size, int) for size in shape):
        raise KernelError(f"a GPU kernel has a block of shape {shape}; give sizes, or None for an axis that it does not have")
    return Block(shape, index_map)  # pyright: ignore[reportArgumentType]


def _run(kernel: Kernel) -> Callable[..., Sequence[jax.Array]]:
    """Return a function that launches a kernel; `jax.vmap` adds an axis to its grid."""

    @jax.custom_batching.custom_vmap
    def run(*arrays: jax.Array) -> tuple[jax.Array, ...]:
        return launch.launch(kernel, arrays)

    @run.def_vmap
    def run_batch(size: int, is_batched: list[bool], *arrays: jax.Array) -> tuple[Any, Any]:
        return _run(kernel.batched(size, is_batched))(*arrays), (True,) * len(kernel.out_shape)

    return run


def load(selected: Any, mask: jax.Array, other: Any) -> jax.Array:
    """Return the elements of a reference at indices (`reference.at[...]`) where a mask is set, and another value elsewhere."""
    if hardware.triton:
        return hardware.triton.load(selected, mask=mask, other=other)
    from jax.experimental.pallas import tpu  # the same operation, without another value

    return jnp.where(mask, tpu.load(selected, mask=mask), other)


def store(selected: Any, values: jax.Array, mask: jax.Array) -> None:
    """Write the elements of a reference at indices (`reference.at[...]`) where a mask is set."""
    if hardware.triton:
        return hardware.triton.store(selected, values, mask=mask)
    from jax.experimental.pallas import tpu  # the same operation

    return tpu.store(selected, values, mask=mask)
