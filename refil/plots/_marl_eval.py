"""Export of learning curves in the JSON form of marl-eval, a package that compares methods (github.com/instadeepai/marl-eval).

The form wants the same number of evaluations in every run, so metrics are interpolated at evenly spaced steps that all
runs have reached. The values are means over the episodes of an evaluation. The `absolute_metrics` are final values
(`refil.stats.final`) of the same part of each run.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from refil import stats
from refil.plots import _runs
from refil.plots._runs import Curves
from refil.storage import serialization
from refil.storage.run_dir import RunDir

ENVIRONMENT = "refil"  # marl-eval's environment; ours are its tasks
METRICS = ("win_rate", "return_mean", "length_mean")
POINTS = 101  # interpolated points per run


def write(curves: Curves, path: Path) -> None:
    """Write the evaluations of all runs to a file."""
    serialization.write_atomic(path, (json.dumps(export(curves), indent=1) + "\n").encode())


def export(curves: Curves) -> dict[str, Any]:
    """Return the evaluations of all runs: environment, task, algorithm, run, step."""
    tasks = {
        env: {label: [_by_metric(run) for run in runs] for label, runs in members.items()}
        for env, members in _runs.panels(curves).items()
    }
    seeds = [seed for members in tasks.values() for runs in members.values() for run in runs for seed in run]
    end = min(points[-1, 0] for metrics in seeds for points in metrics.values())
    steps = np.linspace(0, end, POINTS).round().astype(int)
    return {
        ENVIRONMENT: {
            _name(env): {
                _name(label): {
                    f"run_{number}": _steps(metrics, steps)
                    for number, metrics in enumerate(seed for run in runs for seed in run)
                }
                for label, runs in members.items()
            }
            for env, members in tasks.items()
        }
    }


def _by_metric(run: RunDir) -> list[dict[str, np.ndarray]]:
    """Return the steps and values of each metric, for each seed of a run."""
    lines = run.metrics()
    found = {metric: stats.series(lines, metric) for metric in METRICS}
    return [{metric: by_seed[seed] for metric, by_seed in found.items() if seed in by_seed} for seed in found["win_rate"]]


def _steps(metrics: dict[str, np.ndarray], steps: np.ndarray) -> dict[str, Any]:
    values = {metric: np.interp(steps, *points.T).tolist() for metric, points in metrics.items()}
    run: dict[str, Any] = {
        f"step_{number}": {"step_count": int(step)} | {metric: [each[number]] for metric, each in values.items()}
        for number, step in enumerate(steps)
    }
    return run | {"absolute_metrics": {metric: [_final(points, int(steps[-1]))] for metric, points in metrics.items()}}


def _final(points: np.ndarray, end: int) -> float:
    """Return the final value of a curve that is cut off at a step; of a curve that begins later, its first value."""
    reached = points[points[:, 0] <= end]
    return stats.final(reached if len(reached) else points[:1])


def _name(text: str) -> str:
    return text.replace(",", "")  # marl-eval refuses commas in names
