"""Count the GPU kernels of one update on a machine without a GPU: XLA compiles for an H200 that is only described.

    pip install --no-deps jax-cuda13-plugin jax-cuda13-pjrt
    python benchmarks/kernels_without_gpu.py 3-8sz refil --seeds 1 --pack 0.5 --precision bf16

Prints how many kernels one update launches, the bytes that they read and write, and the milliseconds that this would take at
4 TB/s and at least 2 microseconds per kernel; then the kernels that move most bytes. Kernels are not autotuned, and neither
matrix products nor the recurrent scan are timed: use the figures to compare versions, not to predict times.

With `--max-kernels` and `--max-megabytes` it exits with an error if an update needs more.
"""

import argparse
import os
import re
import sys
from dataclasses import dataclass
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
    """A kernel that XLA launches."""

    name: str
    shape: str
    bytes: int
    source: str


def compiled_for_h200(function, *arguments) -> str:
    """Return the program that XLA compiles, as text."""
    from refil import hardware
    from refil.training.devices import OPTIONS

    known = xla_bridge.canonicalize_platform  # the original looks for a GPU
    xla_bridge.canonicalize_platform = lambda name: "cuda" if name in ("cuda", "gpu") else known(name)
    devices = topologies.get_topology_desc(platform="cuda", target_config=H200, topology="1x1x1").devices
    jax.default_backend = lambda: "gpu"  # the package then chooses its GPU code
    hardware.on_gpu.cache_clear()
    hardware.device = lambda: hardware.Device("gpu", "NVIDIA H200", "nvidia", (9, 0))
    mesh = jax.sharding.Mesh(devices, ("one",))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=everywhere), arguments)
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        return jax.jit(function, compiler_options=OPTIONS).lower(*shapes).compile().as_text()


def bytes_of(shape: str) -> int:
    """Return the size of all arrays in a shape, as XLA writes it."""
    total = 0
    for kind, sizes in re.findall(r"(\w+)\[([\d,]*)\]", shape):
        count = 1
        for size in filter(None, sizes.split(",")):
            count *= int(size)
        total += count * SIZES.get(kind, 0)
    return total


def kernels(program: str) -> list[Kernel]:
    """Return the kernels of the computation that launches most: the body of the loop over updates."""
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


def replay_updates(config):
    """Return eight updates of each seed in the first packed size, and the shapes of their arguments."""
    from refil.rollout import select
    from refil.training.replay import buffer, loop
    from refil.training.replay import update as updates

    setup = config.build()
    size = (*buffer.pack_sizes(config.algorithm.batch, setup.env.spec.horizon, config.algorithm.pack), None)[0]
    state = jax.eval_shape(lambda: loop.init(setup))

    def learn(learner, metrics, batches, episodes, words, ready):
        plans = jax.vmap(jax.vmap(buffer.first_fit))(batches.valid)
        keys = jax.vmap(jax.vmap(jax.random.wrap_key_data))(words)

        def step(carry, inputs):
            gradients, found = updates.seed_gradients(setup, size, carry[0], *inputs)
            after = updates.apply_gradients(setup, carry[0], gradients, episodes), jax.tree.map(jnp.add, carry[1], found)
            return jax.tree.map(partial(select, ready), after, carry), None

        return jax.lax.scan(step, (learner, metrics), (batches, plans, keys))[0]

    seeds, count = config.train.seeds, config.train.envs
    batches = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((count, seeds, config.algorithm.batch, *leaf.shape[2:]), leaf.dtype),
        state.replay.trajectories,
    )
    words, ready = jax.ShapeDtypeStruct((count, seeds, 2), jnp.uint32), jax.ShapeDtypeStruct((seeds,), bool)
    return learn, (state.learner, state.counters.metrics, batches, state.counters.episodes, words, ready)


def on_policy_updates(config):
    """Return the updates of each seed from one rollout, and the shapes of their arguments."""
    from refil.training.onpolicy import loop
    from refil.training.onpolicy import update as updates

    setup = config.build()
    state = jax.eval_shape(lambda: loop.init(setup))
    rollout = jax.eval_shape(lambda state: loop.batch_to_learn(state, loop.play(setup, state)), state)
    steps = jax.ShapeDtypeStruct(rollout.rewards.shape, jnp.float32)

    def learn(learner, batch, targets, rows):
        def one_seed(learner, batch, targets):
            def step(learner, rows):
                return updates.update(setup, learner, updates.take_rows(batch, rows), targets[rows], setup.algorithm.lr)

            return jax.lax.scan(step, learner, rows)

        return updates.map_seeds(one_seed, learner, batch, targets)

    count = config.algorithm.minibatches
    rows = jax.ShapeDtypeStruct((count, config.train.envs // count), jnp.int32)
    return learn, (state.learner, rollout, steps, rows)


def main() -> None:
    """Compile, count and print."""
    from refil.training import config

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env")
    parser.add_argument("method")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--pack", type=float, help="size of the packed batch as a fraction of the padded one (1: not packed)")
    parser.add_argument("--precision", choices=["float32", "tf32", "bf16"], default="tf32")
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--max-kernels", type=int)
    parser.add_argument("--max-megabytes", type=int)
    args = parser.parse_args()
    chosen = config.default(args.env, args.method).with_options(seeds=args.seeds, precision=args.precision)
    if args.pack is not None:
        chosen = chosen.with_options(pack=[args.pack])
    function, arguments = (replay_updates if hasattr(chosen.algorithm, "pack") else on_policy_updates)(chosen)
    found = sorted(kernels(compiled_for_h200(function, *arguments)), key=lambda kernel: -kernel.bytes)
    milliseconds = sum(max(LEAST_MS, kernel.bytes / BYTES_PER_MS) for kernel in found)
    megabytes = sum(kernel.bytes for kernel in found) / 1e6
    print(f"{len(found)} kernels, {megabytes:,.0f} MB, {milliseconds:.2f} ms")
    for kernel in found[: args.top]:
        print(f"{kernel.bytes / 1e6:9.1f} MB  {kernel.name[:36]:36} {kernel.shape[:44]:44} {kernel.source[-60:]}")
    if len(found) > (args.max_kernels or len(found)) or megabytes > (args.max_megabytes or megabytes):
        sys.exit(f"more than {args.max_kernels} kernels or {args.max_megabytes} MB")


if __name__ == "__main__":
    main()
