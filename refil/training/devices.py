"""Devices: dividing seeds, and the work for each seed, among several of them, compiling programs, and memory."""

import contextvars
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import jax
import numpy as np
from jax.errors import JaxRuntimeError
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from refil import hardware, shards
from refil.errors import RefilError
from refil.rollout import is_hosted
from refil.training import exhaustion
from refil.training.setup import Setup
from refil.types import Env

SEEDS = PartitionSpec("seeds")  # the first axis of every array is sharded
Option = str | bool | int
OPTIONS: dict[str, Option] = {
    "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",  # independent kernels overlap
    "xla_gpu_experimental_enable_fusion_autotuner": False,  # trying every fusion twice is most of the compile time
    "xla_gpu_gemm_rewrite_size_threshold": 25_000,  # small products are as fast without autotuning
    "xla_gpu_dot_merger_threshold_mb": 4,  # merged larger products have to be copied apart again
}

QUICK: dict[str, Option] = {"xla_backend_optimization_level": 0}


class Devices:
    """The devices of a run: the largest number that divides the seeds, times the largest number that then divides `rows`.

    The first divides the seeds among devices, the second the environments and rows of each seed (`refil.shards`). The state is
    the same on all devices that share a seed, so nothing that is saved depends on their number.
    """

    def __init__(self, seeds: int, rows: int = 1, share_batches: bool = False) -> None:
        found = jax.devices()
        self.seeds, self.rows, self.found = seeds, rows, len(found)
        self.by_seed = _largest_divisor(seeds, len(found))
        self.by_row = _largest_divisor(rows, len(found) // self.by_seed)
        self.shards = shards.Shards(self.by_row, share_batches) if self.by_row > 1 else None
        axes = {"seeds": self.by_seed} | ({shards.AXIS: self.by_row} if self.shards else {})
        self.mesh = Mesh(np.array(found[: len(self)]).reshape(*axes.values()), tuple(axes))

    def __len__(self) -> int:
        return self.by_seed * self.by_row

    def layout(self) -> str:
        """Return in words how seeds and environments are divided among the devices; nothing where there is only one."""
        if self.found == 1:
            return ""
        used = f"{len(self)} of {self.found} devices: seeds over {self.by_seed}, the environments of each over {self.by_row}"
        why = f"; no larger number divides the seeds ({self.seeds}) or a seed's rows ({self.rows})"
        return used if len(self) == self.found else used + why

    def shard(self, tree: PyTree) -> PyTree:
        """Place each seed's part of the arrays on its device."""
        return tree if len(self) == 1 else jax.device_put(tree, NamedSharding(self.mesh, SEEDS))

    def sharded_shapes(self, tree: PyTree) -> PyTree:
        """Return the shapes of sharded arrays."""
        sharding = None if len(self) == 1 else NamedSharding(self.mesh, SEEDS)
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), tree)

    def shard_mapped(self, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """Let each device run the function on its own seeds, so that its loops end without waiting for other devices."""
        if len(self) == 1:
            return function
        function = partial(_shared, self.shards, function) if self.shards else function
        return jax.shard_map(function, mesh=self.mesh, in_specs=SEEDS, out_specs=SEEDS, check_vma=False)

    def play_and_learn(self, env: Env, play: Callable[..., PyTree], learn: Callable[..., PyTree]) -> tuple[Any, Any]:
        """Compile one iteration of training.

        Where compiled programs cannot play the environment, `play` is put off until `learn` needs its result: it takes long,
        and what follows the last update is never needed.
        """
        compiled = jit(self.shard_mapped(learn), donate_argnums=0)
        if not is_hosted(env):
            return jit(self.shard_mapped(play)), compiled
        return Uncompiled(play, put_off=True), _LearnFromHosted(self, compiled)

    def player(self, env: Env, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """Compile a function that plays episodes with every seed."""
        return program(env, function if is_hosted(env) else self.shard_mapped(function))


def _shared(used: shards.Shards, function: Callable[..., PyTree], *arguments: PyTree) -> PyTree:
    with shards.shared_by(used):
        return function(*arguments)


def _largest_divisor(number: int, most: int) -> int:
    return max(divisor for divisor in range(1, most + 1) if number % divisor == 0)


def devices_for(algorithm: Any, setup: Setup) -> Devices:
    """Return the devices of a run; an environment that compiled programs cannot play is not divided."""
    rows = 1 if is_hosted(setup.env) else algorithm.rows_per_seed(setup)
    return Devices(setup.train.seeds, rows, setup.method.shareable)


class _LearnFromHosted:
    """A compiled `learn` that is given a function to play with instead of what was played."""

    def __init__(self, devices: Devices, learn: Any) -> None:
        self.devices, self.learn = devices, learn

    def __call__(self, state: PyTree, played: Callable[[], PyTree]) -> PyTree:
        return self.learn(state, self.devices.shard(played()))

    def lower(self, state: PyTree, played: PyTree) -> "_LearnFromHosted":
        """Lower the program, given shapes of what will be played."""
        return _LearnFromHosted(self.devices, self.learn.lower(state, played))

    def compile(self) -> "_LearnFromHosted":
        """Compile the lowered program."""
        return _LearnFromHosted(self.devices, self.learn.compile())


def jit(function: Callable[..., PyTree], **options: Any) -> Callable[..., PyTree]:
    """Apply `jax.jit` with compiler options that make training faster."""
    return jax.jit(function, compiler_options=supported_options(), **options)


def jit_quickly(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Apply `jax.jit` with few optimizations on a CPU, for programs that run for moments and would compile for seconds."""
    return jax.jit(function, compiler_options={} if hardware.on_gpu() else QUICK)


class Uncompiled:
    """A function in place of a compiled program, since it plays outside of them; if put off, a call returns what will play."""

    def __init__(self, function: Callable[..., PyTree], put_off: bool = False) -> None:
        self.function, self.put_off = function, put_off

    def __call__(self, *arguments: Any) -> PyTree:
        return partial(self.function, *arguments) if self.put_off else self.function(*arguments)

    def eval_shape(self, *arguments: Any) -> PyTree:
        """Return the shapes of what is played."""
        return jax.eval_shape(self.function, *arguments)

    def lower(self, *arguments: Any) -> "Uncompiled":
        """Return itself, as `compile` does."""
        return self

    compile = lower


def program(env: Env, function: Callable[..., PyTree], quickly: bool = False) -> Callable[..., PyTree]:
    """Apply `jit` or `jit_quickly` to a function that plays, unless compiled programs cannot play the environment."""
    return Uncompiled(function) if is_hosted(env) else (jit_quickly if quickly else jit)(function)


def compile_all(*calls: tuple[Any, ...]) -> list[Callable[..., PyTree]]:
    """Compile several programs in parallel, each given with example arguments; without kernels if one does not compile.

    Put the slowest first: it compiles while the others are traced.
    """
    with_kernels = hardware.kernels().yes
    try:
        return _compile_all(*calls)
    except RefilError:
        raise
    except Exception as error:
        if not with_kernels:
            raise
        hardware.give_up_kernels(str(error).partition("\n")[0])
        jax.clear_caches()  # what was traced calls kernels
        programs = _compile_all(*calls)  # raises again unless a kernel was to blame
        warnings.warn(f"training without GPU kernels, several times slower: {hardware.kernels().reason}", stacklevel=2)
        return programs


def _compile_all(*calls: tuple[Any, ...]) -> list[Callable[..., PyTree]]:
    precision = jax.config.values["jax_default_matmul_precision"]  # like the use of kernels, a setting of this thread

    def compile(program: Any, *arguments: PyTree) -> Callable[..., PyTree]:
        with jax.default_matmul_precision(precision):
            return program.lower(*arguments).compile()

    with ThreadPoolExecutor() as threads:
        started = [threads.submit(contextvars.copy_context().run, compile, *call) for call in calls]
        return [each.result() for each in started]


def run(
    env: Env, function: Callable[..., PyTree], *arguments: PyTree, quickly: bool = False, option: str = "episodes"
) -> PyTree:
    """Compile a function that plays episodes, call it once, and return its results as NumPy arrays.

    Raise if it does not fit into memory; `option` says how many episodes it plays.
    """
    with exhaustion.explained(option):
        (compiled,) = compile_all((program(env, function, quickly), *arguments))
        exhaustion.check_program(compiled, memory_bytes(), option)
        return jax.device_get(compiled(*arguments))


@cache
def supported_options() -> dict[str, Option]:
    """Return those compiler options that this version of XLA supports; none without a GPU."""
    if not hardware.on_gpu():
        return {}
    if _are_supported(OPTIONS):  # the usual case, with a single compilation
        return OPTIONS
    return {name: value for name, value in OPTIONS.items() if _are_supported({name: value})}


def _are_supported(options: dict[str, Option]) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except JaxRuntimeError:
        return False
    return True


def memory_bytes() -> int:
    """Return the memory of the first device, or of the machine where the device does not report it."""
    stats = jax.devices()[0].memory_stats()
    return stats["bytes_limit"] if stats else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_device_memory(required_bytes: Callable[[int, int], dict[str, int]], used: Devices) -> None:
    """Raise if training does not fit into memory, and name the option to blame; a CPU would swap forever instead of failing.

    `required_bytes` returns what a number of seeds need at least on each of the devices that share them, by the option that it
    depends on.
    """
    needed, available = required_bytes(used.seeds // used.by_seed, used.by_row), memory_bytes()
    if sum(needed.values()) > available:
        one_fits = sum(required_bytes(1, used.by_row).values()) <= available
        option = "train.seeds" if one_fits else max(needed, key=lambda name: needed[name])
        size = f"{sum(needed.values()) / 1e9:,.1f} GB of memory where {available / 1e9:,.1f} GB are available"
        raise RefilError(f"training needs {size}; reduce {option}")


def peak_bytes() -> dict[str, int]:
    """Return the peak memory of the first device under its name in metrics; nothing where the device does not report it."""
    stats = jax.devices()[0].memory_stats()
    return {"peak_bytes": stats["peak_bytes_in_use"]} if stats else {}
