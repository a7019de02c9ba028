"""QMIX (PQN): QMIX with attention, trained on-policy (Gallici et al. 2025)."""

from dataclasses import dataclass
from functools import partial

from refil.learning.onpolicy import OnPolicyMethod, OnPolicyOptions, on_policy_q_learning
from refil.learning.onpolicy_networks import OnPolicyNetOptions, on_policy_model
from refil.settings import UnitFloat
from refil.types import MethodInfo, Spec

INFO = MethodInfo("QMIX (PQN)", "attention", "QMIX")
ALGORITHM = "onpolicy"


@dataclass(frozen=True)
class Config(OnPolicyOptions, OnPolicyNetOptions):
    """Options of QMIX (PQN)."""

    imagined_weight: UnitFloat = 0.0  # Weight of the imagined loss (the paper's lambda); the joint loss has the rest


def build(config: Config, spec: Spec) -> OnPolicyMethod:
    """Return the method for an environment of these sizes."""
    return on_policy_q_learning(partial(on_policy_model, config, spec), config.discount, config)
