"""A kernel with the blocks of arrays that each of its programs gets, and its source in Triton's language."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import jax
import numpy as np

from refil.kernels.source import KernelError, Reference, Source, Value, scaled, triton_type
from refil.kernels.translate import index_values, translate

NO_MESH = jax.sharding.AbstractMesh((), ())
LARGE = 2**31  # arrays with more elements need 64-bit offsets


class Options(NamedTuple):
    """How a kernel is compiled and launched; `interpret` runs it on a CPU, for tests.

    `fp_fusion` lets the compiler round a product and a sum that follow each other once instead of twice.
    """

    num_warps: int = 4
    num_stages: int = 3
    fp_fusion: bool = True
    interpret: bool = False
    name: str | None = None


class Block(NamedTuple):
    """The block of an array that a program gets: its shape (None: one element, without an axis) and its number."""

    shape: tuple[int | None, ...]
    index_map: Callable[..., Any]  # from the program's indices in the grid to the number of the block along each axis

    def batched(self, has_batch: bool) -> "Block":
        """Return the block for a grid with a batch axis in front, of an array that has this axis too or does not."""
        if not has_batch:
            return Block(self.shape, lambda _, *indices: self.index_map(*indices))
        return Block((None, *self.shape), lambda first, *indices: (first, *self.index_map(*indices)))


@dataclass(frozen=True)
class Kernel:
    """A function of references to blocks, the blocks of every argument and result, and one program for each point of a grid."""

    body: Callable[..., None]
    in_blocks: tuple[Block, ...]
    out_blocks: tuple[Block, ...]
    out_shape: tuple[jax.ShapeDtypeStruct, ...]
    grid: tuple[int, ...]
    options: Options

    @property
    def name(self) -> str:
        """The name that profilers show: that of the function, without the arguments that `partial` has fixed."""
        return self.options.name or str(getattr(self.body, "func", self.body).__name__)

    def batched(self, size: int, is_batched: Sequence[bool]) -> "Kernel":
        """Return the kernel with a batch axis in front of its grid, of the batched arguments and of all results."""
        return replace(
            self,
            in_blocks=tuple(block.batched(has_batch) for block, has_batch in zip(self.in_blocks, is_batched, strict=True)),
            out_blocks=tuple(block.batched(True) for block in self.out_blocks),
            out_shape=tuple(jax.ShapeDtypeStruct((size, *each.shape), each.dtype) for each in self.out_shape),
            grid=(size, *self.grid),
        )

    def triton_source(self, arrays: Sequence[Any]) -> str:
        """Return the kernel in Triton's language; its arguments are pointers to the given arrays, then to all results."""
        try:
            return self._translated(arrays)
        except KernelError as error:  # such as "uses cumsum, which is not supported"
            raise KernelError(f"the GPU kernel {self.name} {error}") from error

    def _translated(self, arrays: Sequence[Any]) -> str:
        given, blocks = (*arrays, *self.out_shape), (*self.in_blocks, *self.out_blocks)
        pointers = [f"array_{number}" for number in range(len(given))]
        lines = Source()
        indices = _grid_indices(self.grid, lines)
        references = [_reference(*each, indices, lines) for each in zip(blocks, given, pointers, strict=True)]
        shapes = [jax.ShapeDtypeStruct(each.shape, array.dtype) for each, array in zip(references, given, strict=True)]
        with jax.sharding.use_abstract_mesh(NO_MESH):  # a program runs on one device, whatever mesh the call is part of
            traced = jax.make_jaxpr(lambda *values: self.body(*map(jax.new_ref, values)))(*shapes)
        translate(traced, references, lines)
        return "\n".join([f"def {self.name}({', '.join(pointers)}):", *lines.lines, ""])


def _grid_indices(grid: tuple[int, ...], lines: Source) -> list[Value]:
    """Append the computation of the program's index along each axis of the grid, from its number."""
    lines.add("rest = tl.program_id(0)")
    indices: list[Value] = []
    for size in reversed(grid):
        indices.insert(0, lines.assign(f"rest % {size}", (), np.int32))
        lines.add(f"rest = rest // {size}")
    return indices


def _reference(block: Block, array: Any, pointer: str, grid_indices: list[Value], lines: Source) -> Reference:
    """Append the computation of a pointer to the program's block of an array."""
    triton_type(array.dtype)  # raises for types that are not supported
    strides = [prod(array.shape[axis + 1 :]) for axis in range(len(array.shape))]
    indices = index_values(block.index_map, grid_indices, lines)
    wide = ".to(tl.int64)" if prod(array.shape) >= LARGE else ""
    offsets = [
        scaled(f"{index.code}{wide}", (size or 1) * stride)
        for index, size, stride in zip(indices, block.shape, strides, strict=True)
        if not index.is_zero
    ]
    kept = {axis: size for axis, size in enumerate(block.shape) if size is not None}
    first = lines.assign(" + ".join([pointer, *offsets]), (), np.int32)
    return Reference(first.code, tuple(kept.values()), tuple(strides[axis] for axis in kept))
