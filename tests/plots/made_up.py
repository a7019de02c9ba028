"""Runs with made-up metrics."""

from pathlib import Path

from refil.storage import run_dir
from refil.storage.run_dir import RunDir
from tests.tiny_runs import small


def made_up(path: Path, points, config=None, metric: str = "win_rate") -> RunDir:
    """Create a run with evaluations, given as (seed, steps, value)."""
    run = run_dir.create(path, config or small())
    run.append_metrics([{"seed": seed, "env_steps": steps, metric: value} for seed, steps, value in points])
    return run


def constant(path: Path, rates, config=None) -> RunDir:
    """Create a run in which each seed always has the same win rate."""
    points = [(seed, steps, rate) for seed, rate in enumerate(rates) for steps in (0, 100)]
    return made_up(path, points, config)
