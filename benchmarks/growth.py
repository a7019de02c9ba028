"""How the cost of training grows: with armies, the length of episodes, the batch, seeds and environments.

    python benchmarks/growth.py docs/growth

Runs `refil bench` for each number below, writes what it prints into growth.jsonl in that folder (what is there already is not
measured again), then draws growth.png beside it. REFIL in bf16 with 128 environments, one seed and a batch of 32 unless that is
what grows; on 3-8sz unless armies do, which are Marines against as many Marines.
"""

import json
import subprocess
import sys
from pathlib import Path

from matplotlib.figure import Figure

from refil import files

USUAL = {"--envs": 128, "--seeds": 1, "--batch": 32, "--precision": "bf16", "--buffer": 1024}
GROWING = {
    "units a side": [(number, f"{number}m_vs_{number}m", {}) for number in (3, 8, 16, 32)],
    "steps an episode may last": [
        (75, "3-8sz", {"--env.limit": 75}),
        (150, "3-8sz", {}),  # the set's own
        (300, "3-8sz", {"--env.limit": 300}),
    ],
    "episodes in a batch": [(number, "3-8sz", {"--batch": number}) for number in (8, 16, 32, 64, 128)],
    "seeds": [(number, "3-8sz", {"--seeds": number}) for number in (1, 2, 4, 8, 16, 32)],
    "environments": [(number, "3-8sz", {"--envs": number}) for number in (8, 32, 128, 512, 1024)],
}


def main() -> None:
    """Measure what is missing, then draw."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    files.make_folder(folder)
    kept = folder / "growth.jsonl"
    known = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    figures = {each["command"]: each for each in known}
    for cases in GROWING.values():
        for _, env, options in cases:
            words = command(env, options)
            if words not in figures:
                figures[words] = {"command": words} | measured(words)
                files.write_whole(kept, "".join(json.dumps(each) + "\n" for each in figures.values()).encode())
                print(json.dumps(figures[words]), flush=True)
    files.save_figure(drawn(figures), folder / "growth.png")


def command(env: str, options: dict[str, int]) -> str:
    """What is typed to measure a case; the case that all have in common is measured once."""
    return " ".join(["bench", env, *(f"{name} {value}" for name, value in (USUAL | options).items()), "--json"])


def measured(words: str) -> dict[str, object]:
    """What this command of refil says, in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "refil", *words.split()], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def drawn(figures: dict[str, dict]) -> Figure:
    """For everything that grows, the milliseconds that training takes for a thousand steps of each seed."""
    figure = Figure(figsize=(3.0 * len(GROWING), 3.0), dpi=150, layout="constrained")
    for place, (what, cases) in enumerate(GROWING.items()):
        numbers = [number for number, _, _ in cases]
        minutes = [figures[command(env, options)]["minutes_for_10m"] for _, env, options in cases]
        axes = figure.add_subplot(1, len(GROWING), place + 1, xlabel=what, xscale="log", yscale="log")
        axes.plot(numbers, [60e3 * each / 1e4 for each in minutes], marker="o")
        axes.set_xticks(numbers, [str(number) for number in numbers])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        if place == 0:
            axes.set_ylabel("ms for 1000 steps of each seed")
    return figure


if __name__ == "__main__":
    main()
