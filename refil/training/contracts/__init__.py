"""Contracts of environments and methods, checked before anything is compiled or written.

Every mistake is one sentence. Shapes and types are found by tracing, which takes milliseconds; `dry_run` plays a few steps.
"""

from refil.training.contracts.dry_run import dry_run
from refil.training.contracts.env import check_env, check_hosted
from refil.training.contracts.learning import check_learning
from refil.training.contracts.method import RESERVED, check_method
from refil.training.contracts.plugin import build, default_options, is_user_file

__all__ = [
    "RESERVED",
    "build",
    "check_env",
    "check_hosted",
    "check_learning",
    "check_method",
    "default_options",
    "dry_run",
    "is_user_file",
]
