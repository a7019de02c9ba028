"""Time battles of many sizes on a GPU: with the kernel in several versions, without it, and as whole environments.

    python benchmarks/armies.py                                   # everything, in about four minutes
    python benchmarks/armies.py --battles 16m_vs_16m --plans 1 1near 2near --compiler Triton
    python benchmarks/armies.py --battles 2m_vs_2m --envs 4 --steps 2 --plans 1 1near        # a trial on a CPU, interpreted

In the first table both armies walk to the center and fight, 16 steps of 2,048 battles. A plan is the kernel's number of warps,
with `near` if units look only at those that are near when they move; `XLA` is the code without a kernel, and the chosen plan
has an asterisk (`refil.envs.starcraft.sim.kernel.PLANS`). `differ` counts battles that do not end exactly as without a kernel
(there should be none), `bytes` is the working memory of a battle. The second table is `refil bench BATTLE --random`.

What is not measured after `--seconds` is left out; the most important comes first.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
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

# Battles and the plans that are compared, the plan of `PLANS` included.
BATTLES = {
    "16m_vs_16m": ("1", "2", "1near", "2near"),
    "32m_vs_32m": ("1near", "2near", "4near", "2"),
    "64m_vs_64m": ("4near", "8near"),
    "8m_vs_8m": ("1", "1near"),
    "4m_vs_4m": ("1",),
    "27m_vs_30m": ("2near",),
    "bane_vs_bane": ("2near",),
    "2c_vs_64zg": ("4near",),
    "128m_vs_128m": (),
}
WITHOUT_KERNEL = "XLA"


class Job(NamedTuple):
    """A program to time; `plan` is None without a kernel."""

    battle: str
    plan: Plan | None
    program: Callable[..., Any]
    arguments: tuple[Any, ...]
    steps: int  # in one call


class Compiled(NamedTuple):
    """A compiled program."""

    call: Callable[..., Any]
    bytes: int  # that it needs
    seconds: float


def plan(text: str) -> Plan:
    """Return the plan that is written as a number of warps and perhaps `near`."""
    return Plan(int(text.removesuffix("near")), near_only=text.endswith("near"))


def name_of(chosen: Plan | None) -> str:
    """Return the name of a plan."""
    return WITHOUT_KERNEL if chosen is None else f"{chosen.num_warps}{'near' if chosen.near_only else ''}"


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


def battle_jobs(battle: str, plans: list[Plan], envs: int, steps: int) -> list[Job]:
    """Return the battle without a kernel and with every plan."""
    env = build(battle)
    arguments = armies(env, envs)
    interpret = not hardware.on_gpu()

    def play(run: Callable[..., State], state: State, jitter: jax.Array) -> State:
        return jax.lax.fori_loop(0, steps, lambda _, now: run(now, jitter), state)

    def run_kernel(chosen: Plan, state: State, jitter: jax.Array) -> State:
        return kernel.run_ticks(state, jitter, env.game, interpret, chosen)

    programs = {None: ticks_of(env.game)} | {chosen: partial(run_kernel, chosen) for chosen in plans}
    return [Job(battle, chosen, partial(play, run), arguments, steps) for chosen, run in programs.items()]


def whole_job(battle: str, with_kernel: bool, envs: int, steps: int) -> Job:
    """Return the whole environment with random actions."""
    env: Any = build(battle)
    chosen = kernel.plan_for(env.game.num_units) if with_kernel else None
    return Job(battle, chosen, partial(play_random, env, envs, steps), (jax.random.key(0),), steps)


def compile_job(job: Job) -> Compiled:
    """Compile a program, which may take place in another thread."""
    started = time.perf_counter()
    with hardware.using_kernels("auto" if job.plan else "off"):
        compiled = jax.jit(job.program).lower(*job.arguments).compile()
    memory: Any = compiled.memory_analysis()
    return Compiled(compiled, memory.temp_size_in_bytes, time.perf_counter() - started)


def seconds_per_call(compiled: Compiled, job: Job, repeats: int) -> tuple[Any, float]:
    """Return the result of a program and the median time of a call."""
    result, times = jax.block_until_ready(compiled.call(*job.arguments)), []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(compiled.call(*job.arguments))
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

    def __init__(self, envs: int, repeats: int, deadline: float) -> None:
        self.envs, self.repeats, self.deadline = envs, repeats, deadline
        self.expected: dict[str, Any] = {}  # results without a kernel
        print(f"{'battle':<16}{'plan':>8}{'ms a step':>11}{'M steps/s':>11}{'differ':>8}{'bytes':>9}{'compile s':>11}")

    def row(self, job: Job, compiling: "Future[Compiled]") -> None:
        """Measure and print, if there is time."""
        try:
            compiled = compiling.result(timeout=max(self.deadline - time.perf_counter(), 0))
        except TimeoutError:
            compiling.cancel()
            print(f"{job.battle:<16}{name_of(job.plan):>8}   no time left", flush=True)
            return
        result, seconds = seconds_per_call(compiled, job, self.repeats)
        chosen = kernel.plan_for(build(job.battle).game.num_units)
        name = name_of(job.plan) + ("*" if job.plan and job.plan == chosen else "")
        print(
            f"{job.battle:<16}{name:>8}{1e3 * seconds / job.steps:>11.3f}{self.envs * job.steps / seconds / 1e6:>11.3f}"
            f"{self._difference(job, result):>8}{compiled.bytes / self.envs:>9,.0f}{compiled.seconds:>11.1f}",
            flush=True,
        )

    def _difference(self, job: Job, result: Any) -> str:
        if not isinstance(result, State):
            return "-"
        if job.plan is None:
            self.expected[job.battle] = result
        return str(differing(result, self.expected[job.battle])) if job.battle in self.expected else "?"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--battles", nargs="*", default=list(BATTLES), help="default: all sizes, and SMAC's large maps")
    parser.add_argument("--plans", nargs="*", type=plan, help="default: those that suit the size")
    parser.add_argument("--compiler", choices=list(kernel.PLANS), help="what compiles the kernel (default: what refil uses)")
    parser.add_argument("--envs", type=int, default=2048, help="battles at once (default: 2048)")
    parser.add_argument("--steps", type=int, default=16, help="steps of a battle in one call (default: 16)")
    parser.add_argument("--repeats", type=int, default=5, help="calls, of which the median is printed (default: 5)")
    parser.add_argument("--seconds", type=float, default=240, help="when to stop (default: 240)")
    args = parser.parse_args()
    deadline = time.perf_counter() + args.seconds
    if not hardware.on_gpu():
        print("not on a GPU: kernels are interpreted, and only XLA_FLAGS=--xla_cpu_max_isa=AVX makes battles exactly equal")
    if args.compiler:
        hardware.compiler = lambda: args.compiler
    compare(args, deadline)


def compare(args: argparse.Namespace, deadline: float) -> None:
    """Compile everything in parallel, and time one program after another."""
    chosen = {name: args.plans or [plan(text) for text in BATTLES.get(name, ())] for name in args.battles}
    jobs = [job for name, plans in chosen.items() for job in battle_jobs(name, plans, args.envs, args.steps)]
    whole = [whole_job(name, True, args.envs, 4 * args.steps) for name in chosen]
    whole += [whole_job(name, False, args.envs, args.steps) for name in chosen]
    pool = ThreadPoolExecutor(max((os.cpu_count() or 1) // 2, 1))
    pending = [pool.submit(compile_job, job) for job in (*jobs, *whole)]
    for part in (slice(0, len(jobs)), slice(len(jobs), None)):
        table = Table(args.envs, args.repeats, deadline)
        for job, compiling in zip((*jobs, *whole)[part], pending[part], strict=True):
            table.row(job, compiling)
    pool.shutdown(wait=False, cancel_futures=True)


if __name__ == "__main__":
    main()
