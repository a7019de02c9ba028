"""QMIX (UPDeT): agents run a transformer over entities whose tokens value the actions aimed at them (Hu et al. 2021)."""

from dataclasses import dataclass
from functools import partial

from refil.learning.losses import plain
from refil.learning.updet import UpdetOptions, with_qmix
from refil.types import Method, MethodInfo, Spec

INFO = MethodInfo("QMIX (UPDeT)", "UPDeT", "QMIX")


@dataclass(frozen=True)
class Config(UpdetOptions):
    """Options of QMIX (UPDeT)."""


def build(config: Config, spec: Spec) -> Method:
    """The method at these sizes."""
    return plain(partial(with_qmix, config, spec), config.discount)
