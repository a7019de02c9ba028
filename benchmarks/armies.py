"""Time battles of many sizes on a GPU: with the kernel in several versions, without it, and as whole environments.

    pip install triton
    python benchmarks/armies.py                                          # everything, in about four minutes
    python benchmarks/armies.py --battles 16m_vs_16m --compilers Triton --plans 1 1near 2near
    python benchmarks/armies.py --battles 2m_vs_2m --envs 4 --steps 2 --plans 1 1near       # a trial on a CPU, interpreted

Both armies walk to the center and fight, 16 steps of 2,048 battles. A program is what compiles the kernel and a plan: its
number of warps, with `near` if units look only at those that are near when they move; an asterisk marks the plan of
`refil.envs.starcraft.sim.kernel.PLANS`. XLA is the code without a kernel. `differ` counts battles that do not end exactly as
without a kernel (there should be none), `bytes` is the working memory of a battle, `compile s` includes tracing. Programs
called `bench` are those of `refil bench BATTLE --random`. What is not compiled after `--seconds` is left out.
"""

import argparse
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from refil import hardware, plugins
from refil.cli._measure import play_random
from refil.envs.starcraft.env import StarCraft
from refil.envs.starcraft.env import run_ticks as ticks_of
from refil.envs.starcraft.sim import kernel
from refil.envs.starcraft.sim.kernel import Plan
from refil.envs.starcraft.sim.state import Arena, State

# Battles and the plans that are compared, by compiler; those of SMAC's large maps and the smallest battles are the chosen ones.
BATTLES: dict[str, dict[str, tuple[str, ...]]] = {
    "16m_vs_16m": {"Triton": ("1near", "2near", "1"), "Pallas": ("1", "2")},
    "32m_vs_32m": {"Triton": ("1near", "2near", "4near"), "Pallas": ("2",)},
    "8m_vs_8m": {"Triton": ("1", "1near"), "Pallas": ("1",)},
    "64m_vs_64m": {"Triton": ("8near", "4near")},
    "27m_vs_30m": {"Triton": ("2near",)},
    "bane_vs_bane": {"Triton": ("2near",)},
    "2c_vs_64zg": {"Triton": ("8near",)},
    "4m_vs_4m": {"Triton": ("1",), "Pallas": ("1",)},
    "128m_vs_128m": {},
}
WITHOUT_KERNEL = "XLA"


class Job(NamedTuple):
    """A program to time; `compiler` and `plan` are None without a kernel."""

    battle: str
    compiler: str | None
    plan: Plan | None
    program: Callable[..., Any]
    arguments: tuple[Any, ...]
    steps: int  # in one call
    kind: str = ""

    @property
    def name(self) -> str:
        """The name of the program."""
        return " ".join(filter(None, [self.kind, self.compiler or WITHOUT_KERNEL, name_of(self.plan)]))


class Compiling(NamedTuple):
    """A program that is being compiled."""

    job: Job
    compiled: "Future[Any]"
    started: float


def plan(text: str) -> Plan:
    """Return the plan that is written as a number of warps and perhaps `near`."""
    return Plan(int(text.removesuffix("near")), near_only=text.endswith("near"))


def name_of(chosen: Plan | None) -> str:
    """Return the name of a plan."""
    return "" if chosen is None else f"{chosen.num_warps}{'near' if chosen.near_only else ''}"


def build(battle: str) -> StarCraft:
    """Return the environment."""
    module = plugins.load("refil.envs", battle)
    return module.build(module.Config())


def armies(env: StarCraft, battles: int) -> tuple[State, jax.Array]:
    """Return battles in which both armies attack towards the center, and a step's jitter; batches are last."""
    keys = jax.random.split(jax.random.key(0), battles)
    tasks = jnp.asarray(env.tasks)[jnp.arange(battles) % len(env.tasks)]
    first = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), jax.jit(jax.vmap(env.reset))(tasks, keys))
    center = jnp.full_like(first.x, Arena.center)
    ordered = replace(first, goal_x=center, goal_y=center, moving=first.present, attack_moving=first.present)
    return ordered, jax.random.uniform(jax.random.key(1), ordered.x.shape)


def battle_jobs(battle: str, plans: dict[str, list[Plan]], envs: int, steps: int) -> list[Job]:
    """Return the battle without a kernel and with every plan."""
    env = build(battle)
    arguments = armies(env, envs)

    def play(run: Callable[..., State], state: State, jitter: jax.Array) -> State:
        return jax.lax.fori_loop(0, steps, lambda _, now: run(now, jitter), state)

    def run_kernel(chosen: Plan, state: State, jitter: jax.Array) -> State:
        return kernel.run_ticks(state, jitter, env.game, not hardware.on_gpu(), chosen)

    programs = [(None, None, ticks_of(env.game))]
    programs += [(compiler, each, partial(run_kernel, each)) for compiler, found in plans.items() for each in found]
    return [Job(battle, compiler, each, partial(play, run), arguments, steps) for compiler, each, run in programs]


def whole_job(battle: str, compiler: str | None, envs: int, steps: int) -> Job:
    """Return the whole environment with random actions."""
    env: Any = build(battle)
    return Job(battle, compiler, None, partial(play_random, env, envs, steps), (jax.random.key(0),), steps, "bench")


def lower(job: Job) -> Any:
    """Trace a program; Triton compiles its kernel meanwhile."""
    jax.clear_caches()  # traces with another compiler
    hardware.compiler = lambda: job.compiler
    with hardware.using_kernels("auto" if job.compiler else "off"):
        return jax.jit(job.program).lower(*job.arguments)


def seconds_per_call(program: Any, job: Job, repeats: int) -> tuple[Any, float]:
    """Return the result of a program and the median time of a call."""
    result, times = jax.block_until_ready(program(*job.arguments)), []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(program(*job.arguments))
        times.append(time.perf_counter() - started)
    return result, statistics.median(times)


def differing(after: State, expected: State) -> int:
    """Return how many battles differ in any number."""
    differ = np.zeros(expected.time.shape, bool)
    for name in kernel.FIELDS:
        differ |= (np.asarray(getattr(after, name)) != np.asarray(getattr(expected, name))).any(axis=0)
    return int(differ.sum())


class Table:
    """Prints a row per program as soon as it is measured."""

    def __init__(self, envs: int, repeats: int) -> None:
        self.envs, self.repeats = envs, repeats
        self.expected: dict[str, Any] = {}  # results without a kernel
        print(f"{'battle':<14}{'program':<20}{'ms a step':>10}{'M steps/s':>10}{'differ':>8}{'bytes':>9}{'compile s':>11}")

    def add(self, compiling: Compiling) -> None:
        """Measure and print."""
        job, program = compiling.job, compiling.compiled.result()
        compile_s = time.perf_counter() - compiling.started
        result, seconds = seconds_per_call(program, job, self.repeats)
        memory = program.memory_analysis().temp_size_in_bytes / self.envs
        numbers = f"{1e3 * seconds / job.steps:>10.3f}{self.envs * job.steps / seconds / 1e6:>10.3f}"
        rest = f"{self._difference(job, result):>8}{memory:>9,.0f}{compile_s:>11.1f}"
        print(f"{job.battle:<14}{self._name(job):<20}{numbers}{rest}", flush=True)

    def _name(self, job: Job) -> str:
        plans = kernel.PLANS.get(job.compiler or "", {}).items()
        units = build(job.battle).game.num_units
        chosen = next((plan for largest, plan in plans if units <= largest), None)
        return job.name + ("*" if job.plan and job.plan == chosen else "")

    def _difference(self, job: Job, result: Any) -> str:
        if not isinstance(result, State):
            return "-"
        if job.plan is None:
            self.expected[job.battle] = result
        return str(differing(result, self.expected[job.battle]))


def main() -> None:
    """Measure and print."""
    installed = list(hardware.compilers())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--battles", nargs="*", default=list(BATTLES), help="default: all sizes, and SMAC's large maps")
    parser.add_argument("--plans", nargs="*", type=plan, help="default: those that suit the size")
    parser.add_argument("--compilers", nargs="*", default=installed, choices=installed, help="default: those installed")
    parser.add_argument("--envs", type=int, default=2048, help="battles at once (default: 2048)")
    parser.add_argument("--steps", type=int, default=16, help="steps of a battle in one call (default: 16)")
    parser.add_argument("--repeats", type=int, default=5, help="calls, of which the median is printed (default: 5)")
    parser.add_argument("--seconds", type=float, default=240, help="when to stop (default: 240)")
    args = parser.parse_args()
    deadline = time.perf_counter() + args.seconds
    if not hardware.on_gpu():
        print("not on a GPU: kernels are interpreted, and only XLA_FLAGS=--xla_cpu_max_isa=AVX makes battles exactly equal")
    measure(jobs(args), Table(args.envs, args.repeats), deadline)


def jobs(args: argparse.Namespace) -> Iterator[Job]:
    """Yield all programs, the most important first."""
    for name in args.battles:
        suited = BATTLES.get(name, {})
        plans = {each: args.plans or [plan(text) for text in suited.get(each, ())] for each in args.compilers}
        yield from battle_jobs(name, plans, args.envs, args.steps)
        for compiler in args.compilers[-1:] if suited else []:
            yield whole_job(name, compiler, args.envs, 4 * args.steps)
    for name in args.battles:
        yield whole_job(name, None, args.envs, args.steps)


def measure(programs: Iterator[Job], table: Table, deadline: float) -> None:
    """Trace one program after another; others are compiled meanwhile, and those that are ready are timed in between."""
    pool, pending = ThreadPoolExecutor(max((os.cpu_count() or 1) - 1, 1)), deque[Compiling]()
    for job in programs:
        if time.perf_counter() > deadline:
            print(f"{job.battle:<14}{job.name:<20} no time left", flush=True)
            continue
        started = time.perf_counter()
        pending.append(Compiling(job, pool.submit(lower(job).compile), started))
        while pending and pending[0].compiled.done():
            table.add(pending.popleft())
    while pending:
        table.add(pending.popleft())


if __name__ == "__main__":
    main()
