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

USUAL = {"--envs": 128, "--precision": "bf16", "--buffer": 1024}
GROWING = {
    "units a side": [(number, f"{number}m_vs_{number}m", {}) for number in (3, 8, 16, 32)],
    "steps an episode may last": [(number, "3-8sz", {"--env.limit": number}) for number in (75, 150, 300)],
    "episodes in a batch": [(number, "3-8sz", {"--batch": number}) for number in (8, 16, 32, 64, 128)],
    "seeds": [(number, "3-8sz", {"--seeds": number}) for number in (1, 2, 4, 8, 16, 32)],
    "environments": [(number, "3-8sz", {"--envs": number}) for number in (8, 32, 128, 512, 1024)],
}


def main() -> None:
    """Measure what is missing, then draw."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "growth.jsonl"
    done = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    for what, cases in GROWING.items():
        for number, env, options in cases:
            if not any(each["what"] == what and each["number"] == number for each in done):
                done.append({"what": what, "number": number, "env": env} | measured(env, USUAL | options))
                files.write_whole(kept, "".join(json.dumps(each) + "\n" for each in done).encode())
                print(json.dumps(done[-1]), flush=True)
    files.save_figure(drawn(done), folder / "growth.png")


def measured(env: str, options: dict[str, object]) -> dict[str, object]:
    """What `refil bench` says, in a process of its own."""
    words = [str(word) for pair in options.items() for word in pair]
    command = [sys.executable, "-m", "refil", "bench", env, *words, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def drawn(done: list[dict]) -> Figure:
    """For everything that grows, the milliseconds that training takes for a thousand steps of each seed."""
    figure = Figure(figsize=(3.0 * len(GROWING), 3.0), dpi=150, layout="constrained")
    for place, what in enumerate(GROWING):
        rows = sorted((each for each in done if each["what"] == what), key=lambda each: each["number"])
        axes = figure.add_subplot(1, len(GROWING), place + 1, xlabel=what, xscale="log", yscale="log")
        axes.plot([each["number"] for each in rows], [60 * each["minutes_for_10m"] / 1e4 * 1e3 for each in rows], marker="o")
        axes.set_xticks([each["number"] for each in rows], [str(each["number"]) for each in rows])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        if place == 0:
            axes.set_ylabel("ms for 1000 steps of each seed")
    return figure


if __name__ == "__main__":
    main()
