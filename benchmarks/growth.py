"""Measure how the cost of training grows with the armies, the length of episodes, the batch, the seeds and the environments.

    python benchmarks/growth.py results/growth
    python benchmarks/growth.py results/growth --processes 1    # compile one case at a time
    python benchmarks/growth.py results/growth --processes 0    # only draw what has been measured

Trains REFIL (bfloat16), every case in its own process. A few cases compile in parallel; they are then timed one after another,
each with the device to itself, while nothing compiles. Writes growth.jsonl, growth.md and growth.png; cases that growth.jsonl
holds already are not measured again. All actions are random: learning would make battles shorter or longer, and with them
updates cheaper or more expensive.
"""

import argparse
import fcntl
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
from matplotlib.figure import Figure

from refil.storage import serialization
from refil.training import config, devices
from refil.training.replay import loop

COMMON = {"envs": 128, "seeds": 1, "batch": 32}
LOCK = "lock"
MIN_BUFFER, ITERATIONS = 256, 5
MINUTES = (2, 5, 10, 20, 50, 100)  # ticks of the figure


class Case(NamedTuple):
    """An environment, and the options that differ from `COMMON`; options not in `COMMON` are the environment's."""

    env: str
    changes: dict[str, int]

    @property
    def options(self) -> dict[str, int]:
        """All options of the case."""
        return COMMON | self.changes

    @property
    def name(self) -> str:
        """The name of the case in growth.jsonl; equal cases have equal names."""
        return " ".join([self.env, *(f"{name}={value}" for name, value in sorted(self.options.items()))])


class Cost(NamedTuple):
    """The cost of training in one case."""

    update_ms: float  # of one update of all seeds, with its share of play
    steps_per_s: float  # of all seeds
    minutes: float  # for 10M steps of each seed


SWEEPS: dict[str, list[tuple[int, Case]]] = {
    "units per side": [(number, Case(f"{number}m_vs_{number}m", {})) for number in (3, 8, 16, 32)],
    "maximum steps per episode": [
        (number, Case("3-8sz", {"limit": number} if number != 150 else {})) for number in (75, 150, 300)
    ],
    "episodes per batch": [(number, Case("3-8sz", {"batch": number})) for number in (8, 16, 32, 64, 128)],
    "seeds": [(number, Case("3-8sz", {"seeds": number})) for number in (1, 2, 5, 8, 32)],
    "environments": [(number, Case("3-8sz", {"envs": number})) for number in (8, 32, 128, 512, 1024)],
}


def main() -> None:
    """Measure the missing cases and draw the figure, or measure the one case that is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of growth.jsonl, growth.md and growth.png")
    parser.add_argument("--processes", type=int, default=4, help="cases that compile in parallel (default: 4)")
    one = """measure one case and print the result, for example '["3-8sz", {"seeds": 2}]'; growth.jsonl stays as it is"""
    parser.add_argument("--case", type=json.loads, help=one)
    args = parser.parse_args()
    serialization.make_folder(args.folder)
    if args.case:
        print(json.dumps(measure(args.folder, Case(*args.case))))
        return
    results = measure_missing(args.folder, args.processes)
    serialization.write_atomic(args.folder / "growth.md", ("\n".join(table(results)) + "\n").encode())
    serialization.save_figure(draw(results), args.folder / "growth.png")


def measure_missing(folder: Path, processes: int) -> dict[str, dict[str, Any]]:
    """Measure the cases that growth.jsonl does not hold, add them to it, and return all results by the names of their cases."""
    path = folder / "growth.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    results = {result["case"]: result for result in map(json.loads, lines)}
    cases = {case.name: case for sweep in SWEEPS.values() for _, case in sweep}
    with ThreadPoolExecutor(max(processes, 1)) as pool:
        missing = [case for name, case in cases.items() if name not in results] if processes else []
        running = [pool.submit(measure_in_process, folder, case) for case in missing]
        for result in (each.result() for each in as_completed(running)):
            results[result["case"]] = result
            serialization.write_atomic(path, "".join(json.dumps(each) + "\n" for each in results.values()).encode())
            print(json.dumps(result), flush=True)
    return results


def measure_in_process(folder: Path, case: Case) -> dict[str, Any]:
    """Return what a separate process measures."""
    command = [sys.executable, __file__, str(folder), "--case", json.dumps(case)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def run_config(case: Case) -> config.RunConfig:
    """Return the config of a case; epsilon stays 1."""
    common = {name: case.options[name] for name in COMMON}
    env_options = {name: value for name, value in case.changes.items() if name not in COMMON}
    buffer = max(MIN_BUFFER, common["envs"], common["batch"])
    default = config.default(case.env, "refil")
    return default.with_options(env_options, precision="bf16", buffer=buffer, epsilon_finish=1.0, **common)


def measure(folder: Path, case: Case) -> dict[str, Any]:
    """Return the milliseconds and environment steps of some iterations with updates, and the time to compile."""
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # processes that compile share the device, on which XLA tries tile sizes
        requested = run_config(case)
        requested.configure()
        setup = requested.build()
        state = jax.jit(partial(loop.init, setup))()
        started = time.perf_counter()
        iterate = devices.jit(partial(loop.iterate, setup), donate_argnums=0).lower(state).compile()
        compile_s = time.perf_counter() - started
        fcntl.flock(lock, fcntl.LOCK_EX)  # no process compiles while one is timed
        while int(state.counters.episodes[0]) <= max(2 * case.options["batch"], case.options["envs"]):
            state = jax.block_until_ready(iterate(state))
        rounds = []
        for _ in range(ITERATIONS):
            steps, started = int(state.counters.env_steps.sum()), time.perf_counter()
            state = jax.block_until_ready(iterate(state))
            rounds.append([1e3 * (time.perf_counter() - started), int(state.counters.env_steps.sum()) - steps])
    return {"case": case.name, "compiled_s": compile_s, "rounds": rounds} | devices.peak_bytes()


def cost(result: dict[str, Any], case: Case) -> Cost:
    """Return the cost of training from the result of a case."""
    times, steps = zip(*result["rounds"], strict=True)
    steps_per_s = sum(steps) / sum(times) * 1e3
    update_ms = statistics.median(times) / case.options["envs"]
    return Cost(update_ms, steps_per_s, 1e7 * case.options["seeds"] / steps_per_s / 60)


def measured(results: dict[str, dict[str, Any]], sweep: list[tuple[int, Case]]) -> list[tuple[int, Cost]]:
    """Return the costs of those cases of a sweep that have been measured."""
    return [(number, cost(results[case.name], case)) for number, case in sweep if case.name in results]


def table(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Iterate over the lines of a Markdown table with a row for each case."""
    yield "| | | ms per update of all seeds, with play | steps/s of all seeds | minutes for 10M steps of each seed |"
    yield "|---|---:|---:|---:|---:|"
    for label, sweep in SWEEPS.items():
        for number, (update_ms, steps_per_s, minutes) in measured(results, sweep):
            yield f"| {label} | {number} | {update_ms:.2f} | {steps_per_s:,.0f} | {minutes:.1f} |"


def draw(results: dict[str, dict[str, Any]]) -> Figure:
    """Draw the minutes that ten million steps of each seed take, with a panel for each sweep."""
    figure = Figure(figsize=(3.0 * len(SWEEPS), 3.0), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(SWEEPS), sharey=True)
    for axes, (label, sweep) in zip(panels, SWEEPS.items(), strict=True):
        points = measured(results, sweep)
        axes.plot([number for number, _ in points], [each.minutes for _, each in points], marker="o")
        axes.set(xlabel=label, xscale="log", yscale="log")
        axes.set_xticks([number for number, _ in sweep], [str(number) for number, _ in sweep], fontsize=8)
        axes.set_yticks(MINUTES, [str(minutes) for minutes in MINUTES])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("minutes for 10M steps of each seed")
    return figure


if __name__ == "__main__":
    main()
