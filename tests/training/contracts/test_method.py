"""Mistakes in a user's method and model are named before anything is compiled."""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import pytest

from refil.errors import RefilError
from refil.learning.onpolicy import OnPolicyMethod
from refil.nn.mixers import Vdn
from refil.training import config as configs
from refil.training import contracts
from refil.types import Method
from tests import tiny_streams
from tests.tiny_runs import small


class Counted(Vdn):
    """A mixer with a number that is not declared static."""

    size: int = 3


class OnlyRecurs(eqx.Module):
    """A utility with half a memory."""

    weight: jnp.ndarray

    def encode(self, obs, views): ...
    def q_values(self, features, obs): ...
    def recur(self, state, inputs): ...


class Holder(eqx.Module):
    """A model."""

    utility: object


def loss(model, target_model, batch, key): ...


def integer_model(key):
    return replace(small().build().method.init(key), mixer=Counted())


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (None, r"build\(\) returned None; it must return a refil.types.Method"),
        (Method(lambda key: (key, key), loss), r"init\(\) returned a tuple of 2, which has no attribute 'utility'"),
        (Method(integer_model, loss), r"the model has int32 in .mixer.size; .*static=True"),
        (Method(lambda: 0, loss), r"init\(\) is called with \(key\), but its parameters are \(\)"),
        (Method(integer_model, lambda model, batch: 0), r"loss\(\) is called with \(model, target_model, batch, key\)"),
        (Method(integer_model, loss, optimizer=lambda: 0), r"optimizer\(\) is called with \(config\), but its"),
        (Method(lambda key: Holder(jnp.ones(3)), loss), r"the utility is an array of shape \(3,\) without encode\(\)"),
        (Method(lambda key: Holder(OnlyRecurs(jnp.ones(3))), loss), r"OnlyRecurs has recur\(\) but no initial_state\(\)"),
    ],
)
def test_an_object_that_is_no_method_is_refused(method, message):
    with pytest.raises(RefilError, match=f"^mine: {message}"):
        contracts.check_method(method, "mine")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"discount": 2.0}, "mine: discount is 2.0; it must be a number from 0 to 1"),
        ({"num_groups": 0}, "mine: num_groups is 0; it must be an int of 1 or more"),
        ({"views": lambda visible: visible}, r"mine: views\(\) is called with \(visible, groups\)"),
    ],
    ids=["discount", "groups", "views"],
)
def test_numbers_and_functions_of_an_on_policy_method_are_checked(changes, message):
    method = tiny_streams.small().build().method
    with pytest.raises(RefilError, match=message):
        contracts.check_method(replace(method, **changes), "mine", OnPolicyMethod)


def test_an_unknown_algorithm_is_named(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text('from refil.methods.vdn_pqn import Config, build\nALGORITHM = "on-policy"\n')
    with pytest.raises(RefilError, match=r"mine.py: ALGORITHM is 'on-policy'; it must be one of 'replay', 'onpolicy'"):
        configs.default("group_matching", str(path))


def test_methods_of_the_package_pass():
    contracts.check_method(small().build().method, "refil")
