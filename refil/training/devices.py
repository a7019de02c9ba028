"""The devices that train: how seeds are shared out among several, how programs are compiled, what memory was used."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import jax
from jax.errors import JaxRuntimeError
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from refil.errors import RefilError

SEEDS = PartitionSpec("seeds")  # arrays whose first axis is shared out
Option = str | bool | int
OPTIONS: dict[str, Option] = {
    "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",  # kernels overlap that need not wait for each other
    "xla_gpu_experimental_enable_fusion_autotuner": False,  # trying out every fusion twice takes most of the compiling
    "xla_gpu_gemm_rewrite_size_threshold": 25_000,  # products of weights with weights are as fast without trying out tilings
    "xla_gpu_dot_merger_threshold_mb": 4,  # larger products of the same rows stay apart: merged, each part is copied out again
}


class Devices:
    """As many devices as seeds can be shared out among evenly."""

    def __init__(self, seeds: int) -> None:
        found = jax.devices()
        count = max(number for number in range(1, len(found) + 1) if seeds % number == 0)
        self.mesh = Mesh(found[:count], ("seeds",))

    def __len__(self) -> int:
        return self.mesh.size

    def share_out(self, tree: PyTree) -> PyTree:
        """The same arrays, each seed's part on its device."""
        return tree if len(self) == 1 else jax.device_put(tree, NamedSharding(self.mesh, SEEDS))

    def shapes_shared_out(self, tree: PyTree) -> PyTree:
        """What arrays like these are like once they are shared out."""
        where = None if len(self) == 1 else NamedSharding(self.mesh, SEEDS)
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where), tree)

    def each(self, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """The function of all seeds as one that each device runs for its own.

        Loops then end on each device when its own seeds are ready, without a word between devices.
        """
        if len(self) == 1:
            return function
        return jax.shard_map(function, mesh=self.mesh, in_specs=SEEDS, out_specs=SEEDS, check_vma=False)


def jit(function: Callable[..., PyTree], **options: Any) -> Callable[..., PyTree]:
    """`jax.jit`, with the options that training gains from."""
    return jax.jit(function, compiler_options=known_options(), **options)


def compiled(*calls: tuple[Any, ...]) -> list[Callable[..., PyTree]]:
    """Programs, each given with arguments like its own, compiled side by side.

    The one that takes longest had best come first: it is compiled while the others are traced.
    """
    with ThreadPoolExecutor() as threads:
        begun = [threads.submit(program.lower(*arguments).compile) for program, *arguments in calls]
        return [each.result() for each in begun]


@cache
def known_options() -> dict[str, Option]:
    """Those of `OPTIONS` that this version of XLA knows; none where there is no GPU."""
    if jax.default_backend() != "gpu":
        return {}
    if are_known(OPTIONS):  # nearly always, and compiled for once
        return OPTIONS
    return {name: value for name, value in OPTIONS.items() if are_known({name: value})}


def are_known(options: dict[str, Option]) -> bool:
    """Whether XLA compiles with these."""
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except JaxRuntimeError:
        return False
    return True


def memory_bytes() -> int:
    """What the first device may hold; the machine's memory where the device does not tell."""
    used = jax.devices()[0].memory_stats()
    return used["bytes_limit"] if used else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_room(training: PyTree, among: int = 1) -> None:
    """Refuse a state, shared out among so many devices, that is larger than the memory: a CPU would wait for it for ever."""
    needed = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(training)) / among
    if needed > (there := memory_bytes()):
        size = f"{needed / 1e9:,.1f} GB of memory where there are {there / 1e9:,.1f}"
        raise RefilError(f"episodes and networks would take {size}: --buffer or --seeds is too large")


def peak_bytes() -> dict[str, int]:
    """The most memory that the first device has had in use, by the name it has in metrics; nothing where it does not tell."""
    used = jax.devices()[0].memory_stats()
    return {"peak_bytes": used["peak_bytes_in_use"]} if used else {}
