"""Table 1: every method of the paper on the three StarCraft task sets, one seed each (3-8sz 100k steps, others 5k)."""

from pathlib import Path
from typing import Any

from refil import methods, stats
from refil.storage import serialization
from refil.storage.run_dir import RunDir
from refil.training import config, evaluation
from refil.training.config import RunConfig

STEPS = {"3-8sz": 100_000, "3-8csz": 5_000, "3-8MMM": 5_000}
METHODS = (
    *("refil", "qmix_attention", "refil_vdn", "vdn_attention", "qmix_mean_pooling", "qmix_max_pooling"),
    *("qmix_emp", "roma", "qatten", "qtran", "qmix_updet", "refil_updet"),
)
RANDOM_EPISODES = 1000  # episodes of the random policy, for comparison


def runs() -> dict[str, RunConfig]:
    """Return each method on each task set, logged at least every 40 episodes; packing would not repay its compilation."""
    return {
        f"{methods.label(method)} on {env}": config.default(env, method).with_options(steps=steps, log_every=40, pack=())
        for env, steps in STEPS.items()
        for method in METHODS
    }


def report(done: dict[str, RunDir], out: Path) -> Path:
    """Write the table as Markdown, followed by what "final" means."""
    head = ("method and set", "steps", "final win rate", "final return", "TD error", "steps/s", "ms per update", "GB")
    lines = [f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|"]
    lines += [f"| {label} | {' | '.join(row(run))} |" for label, run in done.items()]
    for env in STEPS:
        lines.append(f"| random actions on {env} | | {' | '.join(_random_policy(env))} | | | | |")
    lines += ["", f"Final: {stats.FINAL_MEANING}."]
    path = out / "table_1.md"
    serialization.write_atomic(path, ("\n".join(lines) + "\n").encode())
    return path


def row(run: RunDir) -> list[str]:
    """Return the cells of one run: TD error relative to the variance of its targets, times without compilation, peak memory."""
    lines = run.metrics()
    learning = [line for line in lines if line["updates"]]
    last = next(line for line in reversed(lines) if "win_rate" in line)
    compiled = learning[0] if len(learning) > 1 else lines[0]
    passed = {name: learning[-1][name] - compiled[name] for name in ("seconds", "env_steps", "updates")}
    error = learning[-1]["td_loss"] / learning[-1]["target_variance"]
    return [
        f"{last['env_steps']:,}",
        f"{_final(lines, 'win_rate'):.3f}",
        f"{_final(lines, 'return_mean'):.2f}",
        f"{error:.3f}",
        f"{passed['env_steps'] / passed['seconds']:,.0f}",
        f"{1e3 * passed['seconds'] / passed['updates']:.2f}",
        _peak_gigabytes(lines),
    ]


def _final(lines: list[dict[str, Any]], metric: str) -> float:
    (points,) = stats.series(lines, metric).values()
    return stats.final(points)


def _peak_gigabytes(lines: list[dict[str, Any]]) -> str:
    return f"{max(line['peak_bytes'] for line in lines) / 1e9:.2f}" if "peak_bytes" in lines[-1] else ""


def _random_policy(env: str) -> list[str]:
    import jax

    chosen = config.default(env, "vdn_attention")
    chosen.configure()
    setup = chosen.build()
    init = jax.vmap(setup.method.init)  # any model will do: with epsilon 1 all of its actions are random
    keys = jax.random.key(0)[None], jax.random.key(1)[None]
    result = jax.jit(lambda: evaluation.evaluate(setup.env, init(keys[0]), RANDOM_EPISODES, keys[1], epsilon=1.0))()
    return [f"{float(result.win_rate[0]):.3f}", f"{float(result.return_mean[0]):.2f}"]
