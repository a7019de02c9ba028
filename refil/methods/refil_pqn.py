"""REFIL (PQN): QMIX with attention and values imagined from random groups of entities, trained on-policy."""

from dataclasses import dataclass
from functools import partial

from refil.learning.onpolicy import OnPolicyMethod, OnPolicyOptions, on_policy_q_learning
from refil.learning.onpolicy_networks import OnPolicyNetOptions, on_policy_model
from refil.types import MethodInfo, Spec

INFO = MethodInfo("REFIL (PQN)", "attention", "QMIX")
ALGORITHM = "onpolicy"


@dataclass(frozen=True)
class Config(OnPolicyOptions, OnPolicyNetOptions):
    """Options of REFIL (PQN)."""


def build(config: Config, spec: Spec) -> OnPolicyMethod:
    """Return the method for an environment of these sizes."""
    return on_policy_q_learning(partial(on_policy_model, config, spec), config.discount, config)
