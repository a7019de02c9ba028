"""Mistakes in a user's environment are named before anything is compiled."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import pytest

from refil import plugins
from refil.errors import RefilError
from refil.training import contracts
from refil.types import Outcome, Spec
from tests import tiny_envs

ENV = tiny_envs.build(tiny_envs.Config())


MEMBERS = ("spec", "tasks", "task_names", "reset", "step", "observe")


def changed(changes: dict[str, Any]) -> Any:
    """Return the counting environment with other members."""
    return SimpleNamespace(**{name: getattr(ENV, name) for name in MEMBERS} | changes)


def refused(message: str, **changes: Any) -> None:
    with pytest.raises(RefilError, match=f"^mine: {message}"):
        contracts.check_env(changed(changes), "mine")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"features": 5}, r"observe\(\) gives entities for 2 features, spec.features is 5"),
        ({"agents": 3}, r"observe\(\) gives visible for 2 agents, spec.agents is 3"),
        ({"actions": 3}, r"observe\(\) gives available for 2 actions, spec.actions is 3"),
        ({"agents": 0}, "spec.agents is 0; it must be 1 or more"),
        ({"agents": 4}, "spec.agents 4 is more than spec.entities 3; agents are entities"),
        ({"horizon": -2}, "spec.horizon is -2; it must be 1 or more"),
        ({"horizon": True}, "spec.horizon is True; it must be an int"),
        ({"target_actions": 3}, "spec.target_actions 3 is more than spec.actions 2"),
        ({"target_actions": 1}, r"observe\(\) gives no targeting_action, spec.target_actions is 1"),
    ],
)
def test_sizes_that_do_not_match_the_spec_are_named(sizes, message):
    refused(message, spec=replace(ENV.spec, **sizes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"spec": (2, 3)}, "spec is a tuple of 2; it must be a refil.types.Spec"),
        ({"task_names": ("one",)}, "tasks has 4 rows, task_names has 1"),
        ({"task_names": ("a", "b", "a", "c")}, "task_names has 'a' more than once"),
        ({"task_names": ()}, r"task_names is \(\); it must be a tuple with a string for every task"),
        ({"tasks": [1, 2, 3, 9]}, "tasks holds an int; it must hold arrays with a row per task"),
        ({"feature_names": ("x",)}, "feature_names has 1 names, spec.features is 2"),
        ({"action_names": (1, 2)}, r"action_names is \(1, 2\); it must be a tuple of strings"),
        ({"feature_names": ("x", "x")}, "feature_names has 'x' more than once"),
        ({"action_names": ("stay", "stay")}, "action_names has 'stay' more than once"),
        ({"reset": lambda task: task}, r"reset\(\) is called with \(task, key\), but its parameters are \(task\)"),
        ({"scene": lambda: None}, r"scene\(\) is called with \(state\), but its parameters are \(\)"),
        ({"reset": lambda task, key: ()}, r"reset\(\) returned a tuple of 0; a state is any pytree that holds arrays"),
        ({"observe": lambda state: None}, r"observe\(\) returned None; it must return a refil.types.Observation"),
        ({"observe": lambda state: [state.time]}, r"observe\(\) returned a list of 1; it must return"),
        (
            {"step": lambda state, actions, key: (state, 1.0, False, {})},
            r"step\(\) returned a tuple of 4; it must return \(state,",
        ),
        ({"step": lambda state, actions, key: (state, 1.0)}, r"step\(\) returned \(a State, an array of shape \(\)\); it must"),
        (
            {"step": lambda state, actions, key: state.other},
            r"step\(\) failed at .*test_env.py:\d+ in <lambda>\(\): AttributeError",
        ),
    ],
)
def test_other_mistakes_are_named(changes, message):
    refused(message, **changes)


def stepped(outcome=None, **state_changes):
    def step(state, actions, key):
        return replace(state, **{name: change(state) for name, change in state_changes.items()}), outcome or OUTCOME

    return step


OUTCOME = Outcome(jnp.ones(()), jnp.zeros((), bool), jnp.zeros((), bool))


def test_a_state_whose_type_changes_is_named():
    class Other(tiny_envs.State):
        pass

    refused(
        r"step\(\) returned a state of another type than reset\(\): a tuple of 2 with 2 arrays .* instead of a State with",
        step=lambda state, actions, key: ((state.time, state.length), OUTCOME),
    )


def test_metrics_have_the_declared_names():
    far = replace(OUTCOME, metrics={"far": jnp.ones(())})
    contracts.check_env(changed({"step": stepped(far), "metric_names": ("far",)}), "mine")
    refused(r"step\(\) gives metrics \('far',\), metric_names is \(\)", step=stepped(far))
    refused(r"step\(\) gives metrics \(\), metric_names is \('far',\)", metric_names=("far",))


@pytest.mark.parametrize(
    ("env", "found"), [(None, "None"), (tiny_envs.Counting, "the class Counting"), (3, "an int without spec")]
)
def test_an_object_that_is_no_environment_is_refused(env, found):
    with pytest.raises(RefilError, match=rf"^mine: build\(\) returned {found}"):
        contracts.check_env(env, "mine")


@pytest.mark.parametrize("name", ["group_matching", "3-8sz", "2c_vs_64zg"])
def test_environments_of_the_package_pass(name):
    module = plugins.load("refil.envs", name)
    contracts.check_env(module.build(module.Config()), name)


def test_the_spec_is_a_spec():
    assert isinstance(ENV.spec, Spec)
    contracts.check_env(ENV, "mine")
