"""Compile a kernel with Triton and let XLA launch it like its own kernels.

XLA takes compiled kernels (PTX, the assembly language of NVIDIA GPUs) through the custom call `__gpu$xla.gpu.ptx`. Unlike those
of jax-triton, such a kernel becomes part of the same CUDA graph as the kernels of XLA around it. Triton keeps what it has
compiled in its own folder (`~/.triton/cache`, or `TRITON_CACHE_DIR`).
"""

import hashlib
import linecache
from collections.abc import Sequence
from functools import cache
from math import prod
from threading import Lock
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from refil import hardware
from refil.kernels.program import Kernel, Options
from refil.kernels.source import KernelError

TARGET = "__gpu$xla.gpu.ptx"
PTX_VERSION = 87  # that of CUDA 12.8; newer drivers read it, whatever the version of Triton
THREADS_PER_WARP = 32
ALIGNED = [["tt.divisibility", 16]]  # XLA's arrays start at multiples of 16 bytes
POINTERS = {  # Triton's names for pointers to arrays of these types
    **{f"int{bits}": f"*i{bits}" for bits in (8, 16, 32)},
    **{f"uint{bits}": f"*u{bits}" for bits in (8, 16, 32)},
    **{"bool": "*i1", "float16": "*fp16", "bfloat16": "*bf16", "float32": "*fp32"},
}
COMPILE_LOCK = Lock()


class Compiled(NamedTuple):
    """A compiled kernel, the bytes of shared memory that it needs, and its number of arguments."""

    ptx: str
    shared: int
    arguments: int


def launch(kernel: Kernel, arrays: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    """Launch a kernel on arrays and return its results; it is compiled while JAX traces the call."""
    source = kernel.triton_source(arrays)
    types = tuple(POINTERS[np.dtype(each.dtype).name] for each in (*arrays, *kernel.out_shape))
    with COMPILE_LOCK:  # programs are compiled in several threads, and share kernels
        compiled = compile_kernel(source, kernel.name, types, kernel.options, _capability())
    # Kernels of Triton end with pointers to scratch memory, which ours do not use.
    scratch = [jax.ShapeDtypeStruct((1,), jnp.int8)] * (compiled.arguments - len(types))
    call = jax.ffi.ffi_call(TARGET, (*kernel.out_shape, *scratch))
    sizes = {"grid_x": prod(kernel.grid), "block_x": THREADS_PER_WARP * kernel.options.num_warps}
    sizes |= {"grid_y": 1, "grid_z": 1, "block_y": 1, "block_z": 1, "shared_mem_bytes": compiled.shared}
    attributes = {name: np.int32(size) for name, size in sizes.items()}
    results = call(*arrays, name=kernel.name, kernel_type="ptx", kernel_data=compiled.ptx, **attributes)
    return tuple(results[: len(kernel.out_shape)])


def _capability() -> int:
    found = hardware.device().capability
    if found is None:
        raise KernelError(f"Triton cannot compile kernels for {hardware.device().kind}; switch them off with kernels='off'")
    return 10 * found[0] + found[1]


@cache
def compile_kernel(source: str, name: str, types: tuple[str, ...], options: Options, capability: int) -> Compiled:
    """Compile the source of a kernel whose arguments are pointers of these types; `capability` is 90 for Hopper."""
    import triton  # pyright: ignore[reportMissingImports]
    from triton.backends.compiler import GPUTarget  # pyright: ignore[reportMissingImports]
    from triton.compiler import ASTSource  # pyright: ignore[reportMissingImports]

    function = triton.jit(_python_function(source, name))
    pointers = dict(zip(function.arg_names, types, strict=True))
    aligned = {(position,): ALIGNED for position in range(len(types))}
    compiled = triton.compile(
        ASTSource(function, signature=pointers, constexprs={}, attrs=aligned),
        target=GPUTarget("cuda", capability, THREADS_PER_WARP),
        options={
            "num_warps": options.num_warps,
            "num_stages": options.num_stages,
            "enable_fp_fusion": options.fp_fusion,
            "ptx_version": PTX_VERSION,
        },
    )
    if compiled.metadata.global_scratch_size or compiled.metadata.profile_scratch_size:
        raise KernelError(f"the GPU kernel {name} needs scratch memory, which is not supported")
    ptx = compiled.asm["ptx"]
    return Compiled(ptx, compiled.metadata.shared, ptx.partition(")")[0].count(".param"))


def _python_function(source: str, name: str) -> Any:
    import triton.language as tl  # pyright: ignore[reportMissingImports]
    from triton.language.extra import libdevice  # pyright: ignore[reportMissingImports]

    # The name is the same in every process, since it becomes part of the compiled kernel, and so of keys in caches.
    filename = f"<kernel {name} {hashlib.sha256(source.encode()).hexdigest()[:16]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)  # Triton reads the source
    namespace = {"tl": tl, "libdevice": libdevice, "__name__": __name__}
    exec(compile(source, filename, "exec"), namespace)
    return namespace[name]
