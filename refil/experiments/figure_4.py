"""Figure 4: every method of the paper on the three StarCraft task sets, with 3M steps and 3 seeds.

The upper row has REFIL and its ablations, the lower one the baselines. The paper has 10M steps and 5 seeds:
`--steps 10000000 --seeds 5`. Further seeds of a run join its curve if their folder is next to the run's own and has its name
followed by `_seeds_` and anything.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from refil import methods
from refil.experiments import with_more_seeds
from refil.storage import serialization
from refil.storage.run_dir import RunDir
from refil.training import config
from refil.training.config import RunConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TASK_SETS = ("3-8sz", "3-8csz", "3-8MMM")
ABLATIONS = ("refil", "qmix_attention", "vdn_attention", "refil_vdn", "qmix_mean_pooling", "qmix_max_pooling")
BASELINES = ("qmix_emp", "roma", "qatten", "qtran", "qmix_updet", "refil_updet")
ROWS = (ABLATIONS, ("refil", *BASELINES))
SIZE = (13.2, 4.2)  # inches of a row
MARGIN = 0.1  # fraction of the height of a panel that is left free at its top


def runs() -> dict[str, RunConfig]:
    """Return each method on each task set; metrics contain little besides evaluations."""
    return {label(method, env): run(method, env) for env in TASK_SETS for method in (*ABLATIONS, *BASELINES)}


def run(method: str, env: str) -> RunConfig:
    """Return the run of a method on a task set."""
    return config.default(env, method).with_options(steps=3_000_000, seeds=3, log_every=2_000, save_every=100.0)


def label(method: str, env: str) -> str:
    """Return the label of a method on a task set."""
    return f"{methods.label(method)} on {env}"


def report(done: dict[str, RunDir], out: Path) -> Path:
    """Draw the runs that exist, name those that do not, and write the same as a table."""
    from refil.plots import learning_curves

    path, found = out / "figure_4.png", curves(done)
    serialization.save_figure(draw(found), path)
    lines = list(
        learning_curves.table({name: [each for runs in by_env.values() for each in runs] for name, by_env in found.items()})
    )
    serialization.write_atomic(out / "figure_4.md", ("\n".join(lines) + "\n").encode())
    return path


def curves(done: dict[str, RunDir]) -> dict[str, dict[str, list[RunDir]]]:
    """Return the runs of each method on each task set, with further seeds; methods without any run are left out."""
    found = {
        methods.label(method): {
            env: with_more_seeds(done[label(method, env)]) for env in TASK_SETS if label(method, env) in done
        }
        for method in (*ABLATIONS, *BASELINES)
    }
    return {name: by_env for name, by_env in found.items() if by_env}


def draw(found: dict[str, dict[str, list[RunDir]]]) -> "Figure":
    """Draw a panel for each task set in a row of ablations, and below in one of baselines once one of them has been run."""
    from matplotlib.figure import Figure

    from refil import stats

    rows = ROWS if any(methods.label(method) in found for method in BASELINES) else ROWS[:1]
    figure = Figure(figsize=(SIZE[0], SIZE[1] * len(rows)), dpi=150, layout="constrained")
    panels = figure.subplots(len(rows), len(TASK_SETS), sharey=True, squeeze=False)
    for number, (axes_of_row, row) in enumerate(zip(panels, rows, strict=True)):
        for axes, env in zip(axes_of_row, TASK_SETS, strict=True):
            _draw_panel(axes, row, {name: by_env[env] for name, by_env in found.items() if env in by_env})
            axes.set_title(f"{env}, {'baselines' if number else 'ablations'}")
    panels[0][0].set_ylim(-2, min(panels[0][0].get_ylim()[1] * (1 + MARGIN), 102))
    few = f"min to max for fewer than {stats.MIN_SEEDS} seeds"
    figure.supxlabel(f"line: mean over seeds; band: 95 % t interval, or {few}", fontsize="small")
    return figure


def _draw_panel(axes: "Axes", row: tuple[str, ...], found: dict[str, list[RunDir]]) -> None:
    from refil.plots import _curves, learning_curves

    for method in row:
        name, color = methods.label(method), (*ABLATIONS, *BASELINES).index(method)
        if name not in found:
            axes.plot([], [], color="none", label=f"{name}: not run yet")
            continue
        steps, seeds = learning_curves.seed_curves(found[name])
        text = f"{name} ({_curves.count_seeds([len(seeds)])}, {steps[-1] / 1e6:.2g}M steps)"
        _curves.draw_curve(axes, steps / 1e6, 100 * seeds, color, text, (0.0, 100.0))
    axes.set(xlabel="environment steps (million)", ylabel="win rate (%)")
    axes.tick_params(labelleft=True)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="x-small", loc="upper left", frameon=False, handlelength=2.6, labelspacing=0.3)
