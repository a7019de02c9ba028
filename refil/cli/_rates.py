"""Tables of win rates by task."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


def by_task(names: Sequence[str], rates: dict[str, list[float]], means: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield a line per task, the best one first: means over seeds of win rate, return, lengths and metrics."""
    width, metrics = max(map(len, (*names, "task"))), [name for name in means if name.startswith("metrics.")]
    columns = ["win rate", "  return", "  length", "  won in", *(f"{name:>8}" for name in metrics)]
    yield "  ".join([f"  {'task':<{width}}", *columns])
    for name in sorted(names, key=lambda name: -np.mean(rates[name])):
        numbers = [f"{np.mean(values[name]):8.3f}" for values in (rates, means["return_mean"])]
        numbers.append(f"{np.mean(means['length_mean'][name]):8.1f}")
        numbers.append(steps(mean(np.array(means["won_length_mean"][name], float))))
        numbers += [f"{np.mean(means[metric][name]):{max(8, len(metric))}.3f}" for metric in metrics]
        yield "  ".join([f"  {name:<{width}}", *numbers])


def mean(values: np.ndarray) -> float | None:
    """Return the mean over those seeds that have a value; none may have won."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None


def steps(value: float | None) -> str:
    """Return the text of a mean length, or of a missing one."""
    return f"{'-':>8}" if value is None else f"{value:8.1f}"
