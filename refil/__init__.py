"""Cooperative multi-agent reinforcement learning with teams that change from episode to episode.

`refil.make`, `refil.train`, `refil.load`, `refil.evaluate`, `refil.read_dataset` and `refil.configure` are the public API. They
are imported when they are first used: importing `refil` imports neither JAX nor anything else that is slow, and starts no
backend.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refil.api import EvalSummary, Run, configure, evaluate, load, train
    from refil.datasets import Dataset, read_dataset
    from refil.environment import Environment, make
    from refil.errors import RefilError
    from refil.team import Team

__version__ = "0.2.0"
_HOMES = {
    **dict.fromkeys(("EvalSummary", "Run", "configure", "evaluate", "load", "train"), "refil.api"),
    **dict.fromkeys(("Dataset", "read_dataset"), "refil.datasets"),
    **dict.fromkeys(("Environment", "make"), "refil.environment"),
    "RefilError": "refil.errors",
    "Team": "refil.team",
}
__all__ = [
    "Dataset",
    "Environment",
    "EvalSummary",
    "RefilError",
    "Run",
    "Team",
    "configure",
    "evaluate",
    "load",
    "make",
    "read_dataset",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'refil' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
