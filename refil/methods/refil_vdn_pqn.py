"""REFIL (VDN, PQN): REFIL with a sum in place of a mixing network, trained on-policy."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from refil.learning.onpolicy import OnPolicyMethod, OnPolicyOptions, on_policy_q_learning
from refil.learning.onpolicy_networks import OnPolicyNetOptions, on_policy_model
from refil.types import MethodInfo, Spec

INFO = MethodInfo("REFIL (VDN, PQN)", "attention", "VDN")
ALGORITHM = "onpolicy"


@dataclass(frozen=True)
class Config(OnPolicyOptions, OnPolicyNetOptions):
    """Options of REFIL (VDN, PQN)."""

    mixer: Literal["qmix", "vdn"] = "vdn"  # How utilities are combined into a joint value


def build(config: Config, spec: Spec) -> OnPolicyMethod:
    """Return the method for an environment of these sizes."""
    return on_policy_q_learning(partial(on_policy_model, config, spec), config.discount, config)
