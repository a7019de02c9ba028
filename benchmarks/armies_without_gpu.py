"""Count the instructions of the battle kernel on a machine without a GPU: Triton compiles it for an H200.

    pip install --no-deps triton
    python benchmarks/armies_without_gpu.py 8m_vs_8m 16m_vs_16m 32m_vs_32m --warps 1 2 4

Prints, for each environment and number of warps: registers per thread, bytes that are spilled, the size of the loop over ticks,
which should stay below the 128 KB of the instruction cache, and the instructions of all warps for one battle and tick. Loops
within a tick are counted as often as they run; for loops that end early this is a guess, `--fired` iterations. The last column
is an estimate, not a measurement: millions of battle steps per second if every processor issues two instructions per cycle.
"""

import argparse
import os
import re
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from refil import hardware, plugins
from refil.envs.starcraft.sim import kernel
from refil.envs.starcraft.sim.rules import TICKS_PER_STEP
from refil.kernels import launch

BATTLES = 128
LONG = 150  # instructions
ISSUED_PER_S = 132 * 2 * 1.7e9  # processors, instructions of warps per cycle, cycles per second
LINE = re.compile(r"\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;")
BRANCH = re.compile(r"BRA (?:!?P\d, )?`\((\.L_\w+)\)")
BOUND = re.compile(r"ISETP\.\w+(?:\.U32)?\.AND P\d, PT, U?R\d+, (0x[0-9a-f]+), PT")


class Loop(NamedTuple):
    """The instructions from `first` to `last`, which run `trips` times."""

    first: int
    last: int
    trips: float


class Count(NamedTuple):
    """What one version of the kernel needs."""

    registers: int
    spilled: int  # bytes of a thread
    shared: int  # bytes of a block
    loop_bytes: int  # of the loop over ticks
    instructions: float  # of all warps, for one battle and tick
    seconds: float  # to compile


def compiled(name: str, warps: int | None) -> tuple[launch.Compiled, int, int]:
    """Return the kernel for an environment's battles, its number of warps, and the battles of a block."""
    module = plugins.load("refil.envs", name)
    env = module.build(module.Config())
    keys = jax.ShapeDtypeStruct((BATTLES,), jax.random.key(0).dtype)
    first = jax.eval_shape(jax.vmap(env.reset, in_axes=(None, 0)), env.tasks[0], keys)
    state = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((*leaf.shape[1:], BATTLES), leaf.dtype), first)
    jitter = jax.ShapeDtypeStruct((env.game.num_units, BATTLES), jnp.float32)
    found: list[Any] = []
    compile_kernel = launch.compile_kernel

    def recorded(source: str, called: str, types: Any, options: Any, capability: int) -> launch.Compiled:
        result = compile_kernel(source, called, types, options, capability)
        found.append((result, options.num_warps))
        return result

    hardware.compiler = lambda: "Triton"
    hardware.device = lambda: hardware.Device("gpu", "NVIDIA H200", "nvidia", (9, 0))
    launch.compile_kernel = recorded
    gpu = jax.sharding.AbstractDevice(device_kind="NVIDIA H200", num_cores=132, platform="gpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=gpu)):
        run = partial(kernel.run_ticks, game=env.game, near_only=bool(os.environ.get('NEAR')), **({} if warps is None else {"num_warps": warps}))
        jax.jit(run).trace(state, jitter).lower(lowering_platforms=("cuda",))
    launch.compile_kernel = compile_kernel
    battles = max(kernel.LANES // kernel.pl.next_power_of_2(env.game.num_units), 1)
    return *found[0], battles


def tool(name: str) -> str:
    """Return the path of one of NVIDIA's programs, which Triton brings."""
    import triton  # pyright: ignore[reportMissingImports]

    return str(Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name)


def assembly(ptx: str) -> tuple[str, str]:
    """Return the instructions of a compiled kernel for an H200, and what the assembler says about it."""
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        said = subprocess.run(
            [tool("ptxas"), "-v", "-arch=sm_90a", source, "-o", binary], check=True, capture_output=True, text=True
        )
        shown = subprocess.run([tool("nvdisasm"), "-c", binary], check=True, capture_output=True, text=True)
    return shown.stdout, said.stderr


def instructions_and_loops(program: str, fired: float) -> tuple[list[str], list[Loop]]:
    """Return all instructions, and the loops among them."""
    lines: list[str] = []
    labels: dict[str, int] = {}
    loops: list[Loop] = []
    for line in program.splitlines():
        if re.match(r"\.L_\w+:", line):
            labels[line[:-1]] = len(lines)
        elif found := LINE.match(line):
            lines.append(found[2])
            branch = BRANCH.search(found[2])
            if branch and labels.get(branch[1], len(lines)) < len(lines) - 1:
                loops.append(Loop(labels[branch[1]], len(lines) - 1, _trips(lines[labels[branch[1]] :], fired)))
    return lines, loops


def rarely(program: str) -> list[tuple[int, int]]:
    """Return the code that a condition skips, if it is long: what kernels do where too many units are near."""
    places: dict[str, int] = {}
    branches: list[tuple[int, str]] = []
    count = 0
    for line in program.splitlines():
        if re.match(r"\.L_\w+:", line):
            places[line[:-1]] = count
        elif found := LINE.match(line):
            branch = BRANCH.search(found[2])
            if branch and found[2].startswith("@"):
                branches.append((count + 1, branch[1]))
            count += 1
    return [(start, places[label]) for start, label in branches if places[label] - start > LONG]


def _trips(body: list[str], fired: float) -> float:
    """Return how often a loop runs: the number that its counter is compared with, if that is a constant."""
    bounds = [int(found[1], 16) for line in body if (found := BOUND.search(line))]
    predicate = re.match(r"@!?(P\d)", body[-1])
    last = [line for line in body if predicate and re.search(rf"ISETP\S* {predicate[1]}, PT", line)]
    constant = BOUND.search(last[-1]) if last else None
    return int(constant[1], 16) if constant and bounds else fired


def count(name: str, warps: int | None, fired: float) -> Count:
    """Compile the kernel and count."""
    import time

    started = time.perf_counter()
    result, used, battles = compiled(name, warps)
    seconds = time.perf_counter() - started
    program, said = assembly(result.ptx)
    if os.environ.get("DEBUG"):
        Path(os.environ["DEBUG"]).write_text(program)
    lines, loops = instructions_and_loops(program, fired)
    ticks = max(loops, key=lambda loop: loop.last - loop.first)
    total = 0
    rare = [place for place in rarely(program) if ticks.first <= place[0] < place[1] <= ticks.last]
    never = max(rare, key=lambda place: place[1] - place[0], default=None) if os.environ.get("NEAR") else None
    if os.environ.get("DEBUG"):
        print("   rare", [(b - a) for a, b in rare])
    for place in range(ticks.first, ticks.last + 1):
        skipped = [each for each in rare if each[0] <= place < each[1]]
        factor = 0.0 if never in skipped else min(fired, 1.0) if skipped else 1.0
        for loop in loops:
            if loop != ticks and ticks.first <= loop.first <= place <= loop.last:
                factor *= loop.trips
        total += factor
    inner = [(loop.last - loop.first + 1, loop.trips) for loop in loops if loop != ticks and loop.first > ticks.first]
    if os.environ.get("DEBUG"):
        print("   loops", inner)
    registers = int((re.search(r"Used (\d+) registers", said) or [0, 0])[1])
    spilled = int((re.search(r"(\d+) bytes spill stores", said) or [0, 0])[1])
    return Count(registers, spilled, result.shared, 16 * (ticks.last - ticks.first + 1 - (never[1] - never[0] if never else 0)), total * used / battles, seconds)


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("envs", nargs="+")
    parser.add_argument("--warps", nargs="*", type=int, default=[None], help="numbers of warps (default: the kernel's own)")
    parser.add_argument("--fired", type=float, default=0.5, help="iterations of the loop over attackers (default: 0.5)")
    args = parser.parse_args()
    print(f"{'battles':<16}{'warps':>6}{'registers':>10}{'spilled':>9}{'shared':>8}{'loop KB':>9}{'per tick':>10}{'M/s':>7}{'s':>6}")
    for name in args.envs:
        for warps in args.warps:
            found = count(name, warps, args.fired)
            speed = ISSUED_PER_S / (TICKS_PER_STEP * found.instructions) / 1e6
            print(
                f"{name:<16}{warps or 'auto':>6}{found.registers:>10}{found.spilled:>9}{found.shared:>8}"
                f"{found.loop_bytes / 1024:>9.1f}{found.instructions:>10,.0f}{speed:>7.1f}{found.seconds:>6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
