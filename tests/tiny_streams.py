"""On-policy runs of the counting environment, which take seconds."""

from pathlib import Path

from refil.training import config
from refil.training.config import RunConfig

COUNTING = str(Path(__file__).parent / "tiny_envs.py")
NETWORK = {"size": 8, "heads": 2, "mixing": 4, "memory": 4}


def small(method: str = "refil_pqn", method_options: dict | None = None, **changes) -> RunConfig:
    """Return the config of a small on-policy run; `changes` are fields of `train`, `algorithm` or `output`."""
    fast = {"steps": 400, "envs": 8, "rollout": 6, "reset_every": 2, "minibatches": 2, "epochs": 2}
    fast |= {"eval_every": 100, "eval_episodes": 4, "log_every": 20}
    return config.default(COUNTING, method).with_options({}, NETWORK | (method_options or {}), **(fast | changes))
