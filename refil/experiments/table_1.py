"""Table 1: every method of the paper on all three StarCraft sets, one seed each, long on one set and briefly on the others."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from refil.storage import serialization
from refil.storage.run_dir import Run
from refil.training import config, evaluation
from refil.training.config import Experiment

STEPS = {"3-8sz": 100_000, "3-8csz": 5_000, "3-8MMM": 5_000}
PAPER = (
    *("refil", "qmix_attention", "refil_vdn", "vdn_attention", "qmix_mean_pooling", "qmix_max_pooling"),
    *("qmix_emp", "roma", "qatten", "qtran", "qmix_updet", "refil_updet"),
)
TRIED = 1000  # episodes played at random, to compare with


def planned() -> dict[str, Experiment]:
    """Each method on each set, on the paper's settings."""
    return {
        f"{config.label(method)} on {env}": briefly(config.default(env, method), steps)
        for env, steps in STEPS.items()
        for method in PAPER
    }


def briefly(default: Experiment, steps: int) -> Experiment:
    """So many steps, with a line of metrics at least every 40 episodes; too few for folding to be worth its compiling."""
    return replace(default, options=replace(default.options, steps=steps, log_every=40, fold=()))


def conclude(done: dict[str, Run], out: Path) -> Path:
    """The table, as text."""
    head = ("method and set", "steps", "episodes won", "return", "TD error", "steps/s", "ms an update", "GB")
    lines = [f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|"]
    lines += [f"| {label} | {' | '.join(row(run))} |" for label, run in done.items()]
    for env in STEPS:
        lines.append(f"| random actions on {env} | | {' | '.join(at_random(env))} | | | | |")
    table = out / "table_1.md"
    serialization.write_atomic(table, ("\n".join(lines) + "\n").encode())
    return table


def row(run: Run) -> list[str]:
    """What a run's metrics say: TD error as a share of its targets' variance, times without compiling, most memory used."""
    lines = run.metrics()
    learning = [line for line in lines if line["updates"]]
    last = next(line for line in reversed(lines) if "win_rate" in line)
    compiled = learning[0] if len(learning) > 1 else lines[0]
    passed = {name: learning[-1][name] - compiled[name] for name in ("seconds", "env_steps", "updates")}
    error = learning[-1]["td_loss"] / learning[-1]["target_variance"]
    return [
        f"{last['env_steps']:,}",
        f"{last['win_rate']:.3f}",
        f"{last['return_mean']:.2f}",
        f"{error:.3f}",
        f"{passed['env_steps'] / passed['seconds']:,.0f}",
        f"{1e3 * passed['seconds'] / passed['updates']:.2f}",
        in_gigabytes(lines),
    ]


def in_gigabytes(lines: list[dict[str, Any]]) -> str:
    """The most device memory used, where the device tells."""
    return f"{max(line['peak_bytes'] for line in lines) / 1e9:.2f}" if "peak_bytes" in lines[-1] else ""


def at_random(env: str) -> list[str]:
    """Episodes won and the return of random actions: any model explores with all of its choices."""
    import jax

    built = config.default(env, "vdn_attention").build()
    score = jax.jit(lambda: evaluation.exploring(built.env, built.method.init(jax.random.key(0)), TRIED, jax.random.key(1)))()
    return [f"{float(score.win_rate[0]):.3f}", f"{float(score.return_mean[0]):.2f}"]
