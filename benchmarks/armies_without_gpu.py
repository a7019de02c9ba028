"""Count the instructions of the battle kernel on a machine without a GPU: Triton compiles it for an H200.

    pip install --no-deps triton
    python benchmarks/armies_without_gpu.py 8m_vs_8m 16m_vs_16m 32m_vs_32m --plans 1 1near 2near

A plan is a number of warps, with `near` if units look only at those that are near when they move. Prints, for each battle and
plan: registers per thread, bytes that are spilled, shared memory, the size of the loop over ticks, which should stay below the
128 KB of the instruction cache, and the instructions of all warps for one battle and tick. The last two are those of a kernel
without the code for battles in which too many units are near. `--fired` is the fraction of ticks in which some weapon fires.
The column M/s is an estimate, not a measurement: millions of steps per second at two instructions per cycle of each processor.
"""

import argparse
import re
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from refil import hardware, plugins
from refil.envs.starcraft.sim import kernel, motion
from refil.envs.starcraft.sim.kernel import Plan
from refil.envs.starcraft.sim.rules import TICKS_PER_STEP
from refil.kernels import launch
from refil.kernels.program import Options

BATTLES = 128
ISSUED_PER_S = 132 * 2 * 1.7e9  # processors, instructions of warps per cycle, cycles per second
BYTES = 16  # of an instruction
LONG = 150  # instructions that a condition skips; shorter code is counted as if it always ran
LABEL = re.compile(r"(\.L_\w+):")
LINE = re.compile(r"\s*/\*[0-9a-f]+\*/\s+(.*?)\s*;")
BRANCH = re.compile(r"BRA (?:!?P\d, )?`\((\.L_\w+)\)")
CONSTANT = re.compile(r"ISETP\.\w+(?:\.U32)?\.AND P\d, PT, U?R\d+, (0x[0-9a-f]+), PT")


class Part(NamedTuple):
    """The instructions from `first` up to `last`, and how often they run in what they are part of."""

    first: int
    last: int
    times: float


class Count(NamedTuple):
    """What one version of the kernel needs."""

    registers: int
    spilled: int
    shared: int
    loop_kb: float
    instructions: float
    seconds: float  # of compilation


def plan(text: str) -> Plan:
    """Return the plan that is written as a number of warps and perhaps `near`."""
    return Plan(int(text.removesuffix("near")), near_only=text.endswith("near"))


def count(name: str, chosen: Plan | None, fired: float) -> Count:
    """Compile the kernel for an environment's battles and count."""
    started = time.perf_counter()
    result, used, battles = compiled(name, chosen)
    seconds = time.perf_counter() - started
    program, said = assembly(result.ptx)
    if used.near_only:
        with_all, motion.near_or_all = motion.near_or_all, lambda fits, after, look_at_all: after
        program, _ = assembly(compiled(name, used)[0].ptx)
        motion.near_or_all = with_all
    size, instructions = loop_over_ticks(program, fired)
    registers, spilled = (
        int(found[1]) if (found := re.search(text, said)) else 0 for text in (r"Used (\d+)", r"(\d+) bytes spill stores")
    )
    each = instructions * used.num_warps / battles
    return Count(registers, spilled, result.shared, size * BYTES / 1024, each, seconds)


def compiled(name: str, chosen: Plan | None) -> tuple[launch.Compiled, Plan, int]:
    """Return the kernel for an environment's battles, its plan, and the battles of a block."""
    module = plugins.load("refil.envs", name)
    env = module.build(module.Config())
    used = chosen or kernel.plan_for(env.game.num_units) or Plan()
    keys = jax.ShapeDtypeStruct((BATTLES,), jax.random.key(0).dtype)
    first = jax.eval_shape(jax.vmap(env.reset, in_axes=(None, 0)), env.tasks[0], keys)
    state = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((*leaf.shape[1:], BATTLES), leaf.dtype), first)
    jitter = jax.ShapeDtypeStruct((env.game.num_units, BATTLES), jnp.float32)
    found, compile_kernel = [], launch.compile_kernel

    def recorded(source: str, called: str, types: Any, options: Options, capability: int) -> launch.Compiled:
        found.append(compile_kernel(source, called, types, options, capability))
        return found[-1]

    launch.compile_kernel = recorded
    gpu = jax.sharding.AbstractDevice(device_kind="NVIDIA H200", num_cores=132, platform="gpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=gpu)):
        run = partial(kernel.run_ticks, game=env.game, plan=used)
        jax.jit(run).trace(state, jitter).lower(lowering_platforms=("cuda",))
    launch.compile_kernel = compile_kernel
    return found[0], used, kernel.battles_per_block(env.game.num_units)


def assembly(ptx: str) -> tuple[str, str]:
    """Return the instructions of a compiled kernel for an H200, and what the assembler says about it."""
    import triton  # pyright: ignore[reportMissingImports]

    tools = Path(str(triton.__file__)).parent / "backends" / "nvidia" / "bin"
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        run = partial(subprocess.run, check=True, capture_output=True, text=True)
        said = run([tools / "ptxas", "-v", "-arch=sm_90a", source, "-o", binary]).stderr
        return run([tools / "nvdisasm", "-c", binary]).stdout, said


def loop_over_ticks(program: str, fired: float) -> tuple[int, float]:
    """Return the number of instructions in the loop over ticks, and how many of them run in one iteration."""
    lines, labels = parse(program)
    branches = [(place, labels[found[1]]) for place, line in enumerate(lines) if (found := BRANCH.search(line))]
    loops = [
        Part(target, place + 1, _trips(lines[target : place + 1], fired))
        for place, target in branches
        if target < place and lines[place].startswith("@")
    ]
    ticks = max(loops, key=lambda part: part.last - part.first)
    skipped = [
        Part(place + 1, target, fired)
        for place, target in branches
        if lines[place].startswith("@") and place + LONG < target and ticks.first <= place and target <= ticks.last
    ]
    inner = [part for part in (*loops, *skipped) if part != ticks]
    total = 0.0
    for place in range(ticks.first, ticks.last):
        times = 1.0
        for part in inner:
            times *= part.times if part.first <= place < part.last else 1.0
        total += times
    return ticks.last - ticks.first, total


def parse(program: str) -> tuple[list[str], dict[str, int]]:
    """Return all instructions, and the places of labels among them."""
    lines: list[str] = []
    labels: dict[str, int] = {}
    for line in program.splitlines():
        if found := LABEL.match(line):
            labels[found[1]] = len(lines)
        elif found := LINE.match(line):
            lines.append(found[1])
    return lines, labels


def _trips(body: list[str], fired: float) -> float:
    """Return how often a loop runs: the number that its counter is compared with, or as often as weapons fire."""
    predicate = re.match(r"@!?(P\d)", body[-1])
    compared = [line for line in body if predicate and re.search(rf"ISETP\S* {predicate[1]}, PT", line)]
    found = CONSTANT.search(compared[-1]) if compared else None
    return int(found[1], 16) if found else fired


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("envs", nargs="+")
    parser.add_argument("--plans", nargs="*", type=plan, default=[None], help="for example 1 2near (default: the kernel's own)")
    parser.add_argument("--fired", type=float, default=0.5, help="fraction of ticks in which weapons fire (default: 0.5)")
    args = parser.parse_args()
    hardware.compiler = lambda: "Triton"
    hardware.device = lambda: hardware.Device("gpu", "NVIDIA H200", "nvidia", (9, 0))
    titles = "plan", "registers", "spilled", "shared", "loop KB", "per tick", "M/s", "s"
    print(f"{'battle':<16}" + "".join(f"{title:>10}" for title in titles))
    for name in args.envs:
        for chosen in args.plans:
            found = count(name, chosen, args.fired)
            text = "auto" if chosen is None else f"{chosen.num_warps}{'near' if chosen.near_only else ''}"
            speed = ISSUED_PER_S / (TICKS_PER_STEP * found.instructions) / 1e6
            print(
                f"{name:<16}{text:>10}{found.registers:>10}{found.spilled:>10}{found.shared:>10}{found.loop_kb:>10.1f}"
                f"{found.instructions:>10,.0f}{speed:>10.1f}{found.seconds:>10.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
