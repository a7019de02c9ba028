"""Actions aimed at entities, scored by their targets."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.checks import methods
from refil.checks.report import run_checks
from refil.learning.onpolicy_networks import OnPolicyNetOptions, on_policy_model
from refil.nn.targeted import TargetedUtility
from refil.types import Spec
from tests import tiny_methods
from tests.tiny_methods import random_batch

SPEC = Spec(3, 5, 4, 5, 4, target_actions=3)  # 3 agents, 5 entities, 5 actions, of which 3 aim at entities
BASIC = 2
OPTIONS = OnPolicyNetOptions(size=8, heads=2, memory=4, shared_targets=True)


def scored(obs):
    utility = on_policy_model(OPTIONS, SPEC, jax.random.key(0)).utility
    assert isinstance(utility, TargetedUtility)
    features = jax.random.normal(jax.random.key(1), (2, *obs.agent_present.shape, 4))
    return utility.q_values(features, obs)


def observed(aimed, visible=True):
    obs = random_batch(SPEC, 0).observations
    aimed = jnp.broadcast_to(jnp.array(aimed), obs.present.shape)
    return replace(obs, targeting_action=aimed, visible=jnp.full_like(obs.visible, visible))


def test_a_value_follows_its_target_to_another_action():
    q, swapped = (scored(observed(aimed)) for aimed in ([-1, -1, 2, 3, 4], [-1, -1, 4, 3, 2]))
    assert q.shape[-1] == SPEC.actions
    np.testing.assert_allclose(swapped, q[..., jnp.array([0, 1, 4, 3, 2])], atol=1e-6)
    assert float(jnp.abs(q[..., 2] - q[..., 4]).max()) > 1e-3


def test_targets_out_of_sight_have_the_same_value():
    q = scored(observed([-1, -1, 2, 3, 4], visible=False))
    np.testing.assert_allclose(q[..., BASIC:], jnp.broadcast_to(q[..., BASIC:][..., :1], q[..., BASIC:].shape), atol=1e-6)


def test_actions_without_a_target_do_not_depend_on_who_can_be_targeted():
    q, none = (scored(observed(aimed)) for aimed in ([-1, -1, 2, 3, 4], [-1, -1, -1, -1, -1]))
    np.testing.assert_array_equal(q[..., :BASIC], none[..., :BASIC])
    assert not np.allclose(q[..., BASIC:], none[..., BASIC:])


@pytest.mark.parametrize("name", ["refil", "refil_vdn", "qmix_mean_pooling", "refil_pqn"])
def test_methods_that_share_targets_guarantee_what_all_methods_do(name):
    method = tiny_methods.small(name, tiny_methods.RECURRENT, methods.SPEC, shared_targets=True)
    results = list(run_checks(methods.all_checks(tiny_methods.subject_of(method, methods.SPEC), 3)))
    assert [each for each in results if each.status == "FAILED"] == []
    assert sum(each.status == "ok" for each in results) >= 7
