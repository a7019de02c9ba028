"""Mistakes in a user's environment or method are named before anything is compiled."""

from dataclasses import replace

import pytest

from refil import plugins
from refil.errors import RefilError
from refil.nn.mixers import Vdn
from refil.training import contracts
from refil.types import Method
from tests import tiny_envs
from tests.tiny_runs import small


class Counted(Vdn):
    """A mixer with a number that is not declared static."""

    size: int = 3


def integer_model(key):
    return replace(small().build().method.init(key), mixer=Counted())


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (None, "build of mine returned NoneType instead of refil.types.Method"),
        (Method(lambda key: (key, key), lambda *given: given), "init of mine returned tuple, which has no attribute 'utility'"),
        (Method(integer_model, lambda *given: given), r"the model of mine has int32 in .mixer.size; .*static=True"),
    ],
)
def test_an_object_that_is_no_method_is_refused(method, message):
    with pytest.raises(RefilError, match=message):
        contracts.check_method(method, "mine")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"features": 5}, r"observe of mine must return entities \[entities, features\] with shape \(3, 5\), not \(3, 2\)"),
        ({"agents": 3}, r"visible \[agents, entities\] with shape \(3, 3\), not \(2, 3\)"),
        ({"actions": 3}, r"available \[agents, actions\] with shape \(2, 3\), not \(2, 2\)"),
    ],
)
def test_observations_that_do_not_match_the_spec_are_named(sizes, message):
    env = tiny_envs.build(tiny_envs.Config())
    with pytest.raises(RefilError, match=message):
        contracts.check_env(replace(env, spec=replace(env.spec, **sizes)), "mine")


def test_every_task_has_a_name():
    env = replace(tiny_envs.build(tiny_envs.Config()), task_names=("one",))
    with pytest.raises(RefilError, match="mine has 4 tasks but 1 task_names"):
        contracts.check_env(env, "mine")


@pytest.mark.parametrize("name", ["group_matching", "3-8sz", "2c_vs_64zg"])
def test_environments_of_the_package_pass(name):
    module = plugins.load("refil.envs", name)
    contracts.check_env(module.build(module.Config()), name)
