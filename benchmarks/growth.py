"""How the cost of training grows with armies, the length of episodes, batches, seeds and environments.

    python benchmarks/growth.py results/growth
    python benchmarks/growth.py results/growth 1    # compile one at a time
    python benchmarks/growth.py results/growth 0    # draw what has been measured

Trains REFIL (bfloat16) in a process for each case: a few are compiled at once (4, or as many as said), then timed one after
another, each with the device to itself, while nothing is compiled. Writes growth.jsonl, from which it goes on, growth.md and
growth.png. Teams act at random: what they learn makes battles shorter or longer, and with that updates cheaper or dearer.
"""

import fcntl
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
from matplotlib.figure import Figure

from refil.storage import serialization
from refil.training import config, devices
from refil.training.replay import loop

Case = tuple[str, dict[str, int]]  # an environment, and options that are not the usual ones
USUAL = {"envs": 128, "seeds": 1, "batch": 32}
GROWING: dict[str, list[tuple[int, Case]]] = {
    "units a side": [(number, (f"{number}m_vs_{number}m", {})) for number in (3, 8, 16, 32)],
    "steps an episode may last": [(number, ("3-8sz", {"limit": number} if number != 150 else {})) for number in (75, 150, 300)],
    "episodes in a batch": [(number, ("3-8sz", {"batch": number})) for number in (8, 16, 32, 64, 128)],
    "seeds": [(number, ("3-8sz", {"seeds": number})) for number in (1, 2, 5, 8, 32)],
    "environments": [(number, ("3-8sz", {"envs": number})) for number in (8, 32, 128, 512, 1024)],
}
LOCK = "lock"
LEAST_EPISODES, ITERATIONS = 256, 5
MINUTES = (2, 5, 10, 20, 50, 100)  # where the figure has lines


def name_of(case: Case) -> str:
    """The same for two cases that are the same."""
    env, options = case
    return " ".join([env, *(f"{name}={value}" for name, value in sorted((USUAL | options).items()))])


def main() -> None:
    """Measure what is missing, then draw."""
    if len(sys.argv) == 4:
        measure(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
        return
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder, at_once = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 4
    serialization.make_folder(folder)
    kept = folder / "growth.jsonl"
    known = {each["case"]: each for each in map(json.loads, kept.read_text().splitlines())} if kept.exists() else {}
    cases = {name_of(case): case for rows in GROWING.values() for _, case in rows}
    with ThreadPoolExecutor(max(at_once, 1)) as pool:
        wanted = [case for name, case in cases.items() if name not in known] if at_once else []
        missing = [pool.submit(in_a_process, folder, case) for case in wanted]
        for found in (each.result() for each in as_completed(missing)):
            known[found["case"]] = found
            serialization.write_atomic(kept, "".join(json.dumps(each) + "\n" for each in known.values()).encode())
            print(json.dumps(found), flush=True)
    serialization.write_atomic(folder / "growth.md", ("\n".join(table(known)) + "\n").encode())
    serialization.save_figure(drawn(known), folder / "growth.png")


def in_a_process(folder: Path, case: Case) -> dict:
    """What a process of its own measures."""
    words = [sys.executable, __file__, str(folder), case[0], json.dumps(case[1])]
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def measure(folder: Path, env: str, options: dict[str, int]) -> None:
    """Print what iterations of this case take once updates are made, compiling not counted."""
    wanted = USUAL | options
    counts = {name: wanted[name] for name in USUAL}
    buffer = max(LEAST_EPISODES, wanted["envs"], wanted["batch"])
    asked = config.default(env, "refil")
    world = replace(asked.options.env, limit=wanted.get("limit"))
    # Every action is random from beginning to end, however many episodes an iteration has.
    changed = replace(asked.options, env=world, precision="bf16", buffer=buffer, epsilon_finish=1.0, **counts)
    asked = replace(asked, options=changed)
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # compilers share the device, on which XLA tries out tilings
        built = asked.build()
        training = jax.jit(partial(loop.begin, built))()
        began = time.perf_counter()
        iterate = devices.jit(partial(loop.iterate, built), donate_argnums=0).lower(training).compile()
        compiled = time.perf_counter() - began
        fcntl.flock(lock, fcntl.LOCK_EX)  # nobody compiles while one is timed
        while int(training.episodes[0]) <= max(2 * wanted["batch"], wanted["envs"]):
            training = jax.block_until_ready(iterate(training))
        rounds = []
        for _ in range(ITERATIONS):
            steps, began = int(training.env_steps.sum()), time.perf_counter()
            training = jax.block_until_ready(iterate(training))
            rounds.append([1e3 * (time.perf_counter() - began), int(training.env_steps.sum()) - steps])
    found = {"case": name_of((env, options)), "compiled_s": compiled, "rounds": rounds} | devices.peak_bytes()
    print(json.dumps(found))


def figures(found: dict, case: Case) -> tuple[float, float, float]:
    """Milliseconds of an update of all seeds with its play, all seeds' steps a second, and minutes for 10M steps of each."""
    wanted = USUAL | case[1]
    milliseconds = statistics.median(each for each, _ in found["rounds"])
    steps = sum(steps for _, steps in found["rounds"]) / sum(each for each, _ in found["rounds"]) * 1e3
    return milliseconds / wanted["envs"], steps, 1e7 * wanted["seeds"] / steps / 60


def measured(known: dict[str, dict], rows: list[tuple[int, Case]]) -> list[tuple[int, tuple[float, float, float]]]:
    """Of these cases those that are known, with their figures."""
    return [(number, figures(known[name_of(case)], case)) for number, case in rows if name_of(case) in known]


def table(known: dict[str, dict]) -> Iterator[str]:
    """A row for every case."""
    yield "| | | ms an update of all seeds, with play | steps/s of all seeds | minutes for 10M steps of each seed |"
    yield "|---|---:|---:|---:|---:|"
    for what, rows in GROWING.items():
        for number, (update, steps, minutes) in measured(known, rows):
            yield f"| {what} | {number} | {update:.2f} | {steps:,.0f} | {minutes:.1f} |"


def drawn(known: dict[str, dict]) -> Figure:
    """For everything that grows, the minutes that ten million steps of each seed take."""
    figure = Figure(figsize=(3.0 * len(GROWING), 3.0), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(GROWING), sharey=True)
    for axes, (what, rows) in zip(panels, GROWING.items(), strict=True):
        found = measured(known, rows)
        axes.plot([number for number, _ in found], [minutes for _, (_, _, minutes) in found], marker="o")
        axes.set(xlabel=what, xscale="log", yscale="log")
        axes.set_xticks([number for number, _ in rows], [str(number) for number, _ in rows], fontsize=8)
        axes.set_yticks(MINUTES, [str(minutes) for minutes in MINUTES])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("minutes for 10M steps of each seed")
    return figure


if __name__ == "__main__":
    main()
