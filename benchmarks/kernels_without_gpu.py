"""What an update does on an H200, counted on a machine that has none: XLA compiles for a GPU that is only described.

    pip install 'jax[cuda13]'
    python benchmarks/kernels_without_gpu.py 3-8sz refil --seeds 1 --fold 0.5 --precision bf16

Prints how many kernels an update starts, the bytes that they read and write, and the milliseconds that this would take at
4 TB/s and at least 2 microseconds a kernel; then the kernels that move most. No kernel is tuned, and neither products nor
the loop of the recurrent unit are timed: the figure is for comparing versions, not for predicting one.
"""

import argparse
import os
import re
from dataclasses import dataclass, replace
from functools import partial

os.environ |= {"CUDA_VISIBLE_DEVICES": "-1", "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1"}
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0")

import jax
import jax.numpy as jnp
from jax._src import xla_bridge
from jax.experimental import topologies

H200 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000 l2_cache_size: 62914560 device_memory_size: 149000000000
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  cuda_compute_capability { major: 9 }
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
runtime_version { major: 13 }
device_description_str: "NVIDIA H200"
"""
BYTES_PER_MS, LEAST_MS = 4e9, 2e-3
SIZES = {"f32": 4, "bf16": 2, "s32": 4, "u32": 4, "s16": 2, "u16": 2, "s8": 1, "u8": 1, "pred": 1, "f16": 2}
NO_KERNELS = {"parameter", "get-tuple-element", "tuple", "bitcast", "constant", "while", "conditional", "call"}
INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (\([^=]*?\)|\S+) ([\w\-]+)\((.*)$")


@dataclass(frozen=True)
class Kernel:
    """One that XLA starts."""

    name: str
    shape: str
    bytes: int
    source: str


def compiled_for_h200(function, *arguments) -> str:
    """The program that XLA makes of a function, as text."""
    from refil.training.devices import OPTIONS

    known = xla_bridge.canonicalize_platform  # it would look for a GPU
    xla_bridge.canonicalize_platform = lambda name: "cuda" if name in ("cuda", "gpu") else known(name)
    devices = topologies.get_topology_desc(platform="cuda", target_config=H200, topology="1x1x1").devices
    jax.default_backend = lambda: "gpu"  # so that the package chooses what it chooses there
    mesh = jax.sharding.Mesh(devices, ("one",))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=everywhere), arguments)
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        return jax.jit(function, compiler_options=OPTIONS).lower(*shapes).compile().as_text()


def bytes_of(shape: str) -> int:
    """Of all arrays in a shape as XLA writes it."""
    total = 0
    for kind, sizes in re.findall(r"(\w+)\[([\d,]*)\]", shape):
        count = 1
        for size in filter(None, sizes.split(",")):
            count *= int(size)
        total += count * SIZES.get(kind, 0)
    return total


def kernels(program: str) -> list[Kernel]:
    """Those of the computation that starts most: the body of the loop over updates."""
    found: list[list[Kernel]] = []
    program = re.sub(r"/\*.*?\*/", "", program)  # XLA numbers the arrays of long shapes in comments
    for block in re.split(r"\n}\n", program):
        if re.match(r"\s*%?fused|\s*%?\w*computation", block.lstrip("\n")):
            continue
        lines = [match.groups() for match in map(INSTRUCTION.match, block.splitlines()) if match]
        shapes = {name: shape for name, shape, _, _ in lines}
        found.append(
            [
                Kernel(
                    name,
                    shape,
                    bytes_of(shape)
                    + sum(bytes_of(shapes.get(read, "")) for read in re.findall(r"%([\w.\-]+)", rest.split(")")[0])),
                    (re.findall(r'op_name="([^"]*)"', rest) or [""])[0],
                )
                for name, shape, operation, rest in lines
                if operation not in NO_KERNELS
            ]
        )
    return max(found, key=len)


def update(asked):
    """Eight updates of each seed, folded onto the first size that they may be folded onto, and what they take."""
    from refil import rollout
    from refil.training.replay import loop, packing
    from refil.training.replay import update as improve

    built = asked.build()
    size = (*improve.sizes(built), None)[0]
    begun = jax.eval_shape(lambda: loop.begin(built))

    def learn(learner, metrics, batches, episodes, words, ready):
        places = jax.vmap(jax.vmap(packing.arrange))(batches.valid)
        keys = jax.vmap(jax.vmap(jax.random.wrap_key_data))(words)

        def step(so_far, now):
            gradient, found = improve.gradients(built, size, so_far[0], *now)
            after = improve.follow_all(built, so_far[0], gradient, episodes), jax.tree.map(jnp.add, so_far[1], found)
            return jax.tree.map(partial(rollout.keep, ready), after, so_far), None

        return jax.lax.scan(step, (learner, metrics), (batches, places, keys))[0]

    seeds, updates = asked.options.seeds, asked.options.envs
    batches = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((updates, seeds, asked.options.batch, *leaf.shape[2:]), leaf.dtype),
        begun.replay.trajectories,
    )
    words, ready = jax.ShapeDtypeStruct((updates, seeds, 2), jnp.uint32), jax.ShapeDtypeStruct((seeds,), bool)
    return learn, (begun.learner, begun.metrics, batches, begun.episodes, words, ready)


def main() -> None:
    """PositiveInt, and print."""
    from refil.training import config

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env")
    parser.add_argument("method")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--fold", type=float, help="share of a batch's instants onto which it is folded (1: not folded)")
    parser.add_argument("--precision", choices=list(config.PRODUCTS), default="tf32")
    parser.add_argument("--top", type=int, default=20)
    given = parser.parse_args()
    asked = config.default(given.env, given.method)
    shares = asked.options.fold if given.fold is None else (given.fold,)
    asked = replace(asked, options=replace(asked.options, seeds=given.seeds, precision=given.precision, fold=shares))
    function, arguments = update(asked)
    found = sorted(kernels(compiled_for_h200(function, *arguments)), key=lambda kernel: -kernel.bytes)
    milliseconds = sum(max(LEAST_MS, kernel.bytes / BYTES_PER_MS) for kernel in found)
    print(f"{len(found)} kernels, {sum(kernel.bytes for kernel in found) / 1e6:,.0f} MB, {milliseconds:.2f} ms")
    for kernel in found[: given.top]:
        print(f"{kernel.bytes / 1e6:9.1f} MB  {kernel.name[:36]:36} {kernel.shape[:44]:44} {kernel.source[-60:]}")


if __name__ == "__main__":
    main()
