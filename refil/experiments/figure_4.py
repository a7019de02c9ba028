"""Figure 4, upper row: REFIL and its ablations on the three StarCraft task sets, with 3M steps and 3 seeds.

The paper has 10M steps and 5 seeds: `--steps 10000000 --seeds 5`.
"""

from pathlib import Path

from refil import methods
from refil.storage import serialization
from refil.storage.run_dir import RunDir
from refil.training import config
from refil.training.config import RunConfig

TASK_SETS = ("3-8sz", "3-8csz", "3-8MMM")
ABLATIONS = ("refil", "qmix_attention", "vdn_attention", "refil_vdn")


def runs() -> dict[str, RunConfig]:
    """Return each method on each task set; metrics contain little besides evaluations."""
    return {
        f"{methods.label(method)} on {env}": config.default(env, method).with_options(steps=3_000_000, seeds=3, log_every=2_000)
        for env in TASK_SETS
        for method in ABLATIONS
    }


def report(done: dict[str, RunDir], out: Path) -> Path:
    """Draw a panel for each task set, and write the same as a table."""
    from refil.plots import learning_curves

    path = out / "figure_4.png"
    serialization.save_figure(learning_curves.draw(curves(done)), path)
    serialization.write_atomic(out / "figure_4.md", ("\n".join(learning_curves.table(curves(done))) + "\n").encode())
    return path


def curves(done: dict[str, RunDir]) -> dict[str, list[RunDir]]:
    """Return the runs of each method, on all task sets."""
    names = [methods.label(method) for method in ABLATIONS]
    return {name: [done[f"{name} on {env}"] for env in TASK_SETS] for name in names}
