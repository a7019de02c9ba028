"""Checks of environments find environments that break their properties; tests/test_envs.py runs them on all others."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from refil.checks import environments
from refil.checks.environments import Subject
from refil.checks.report import CheckFailed, NotApplicable
from tests.training.contracts.test_dry_run import observing
from tests.training.contracts.test_env import ENV, changed


def stepping(change):
    def step(state, actions, key):
        after, outcome = ENV.step(state, actions, key)
        return change(after, outcome, actions)

    return step


def fails(check, message: str, **changes) -> None:
    with pytest.raises(CheckFailed, match=message):
        check(Subject(changed(changes)))


def test_random_numbers_from_outside_the_key_are_found():
    def reset(task, key):
        return replace(ENV.reset(task, key), time=jnp.int32(np.random.default_rng().integers(10**6)))

    fails(environments.tracing_is_deterministic, r"reset\(\) differs from call to call", reset=reset)


def test_features_in_absent_slots_are_found():
    observe = observing(entities=lambda obs: obs.entities + 1.0)
    fails(environments.absent_entities_are_padding, "absent entities have features up to 1; they must be zero", observe=observe)


def test_absent_agents_that_see_are_found():
    observe = observing(visible=lambda obs: obs.visible | True)
    fails(environments.absent_entities_are_padding, "times an absent entity is visible", observe=observe)


def test_absent_agents_that_act_are_found():
    step = stepping(lambda after, outcome, actions: (after, replace(outcome, reward=outcome.reward + actions[1])))
    fails(environments.absent_agents_have_no_effect, "actions of absent agents change rewards or ends by up to 1", step=step)


@pytest.mark.parametrize("actions", [2, 3, 4, 5])
def test_absent_agents_that_may_only_stay_but_act_are_found(actions):
    """The action that absent agents may choose is in the middle."""
    middle = actions // 2
    spec = replace(ENV.spec, actions=actions)

    def observe(state):
        obs = ENV.observe(state)
        return replace(obs, available=obs.agent_present[:, None] | (jnp.arange(actions) == middle))

    step = stepping(lambda after, outcome, chosen: (after, replace(outcome, reward=outcome.reward + (chosen[1] != middle))))
    fails(
        environments.absent_agents_have_no_effect,
        "actions of absent agents change rewards",
        spec=spec,
        observe=observe,
        step=step,
    )


def test_names_that_are_missing_or_repeated_are_found():
    message = "action_names has 1 different names for 2 actions; each action needs its own"
    fails(environments.names_match_the_spec, message, feature_names=("x", "y"), action_names=("stay", "stay"))


def test_presence_that_changes_is_found():
    def observe(state):
        obs = ENV.observe(state)
        return replace(obs, present=obs.present & (state.time < 2))

    fails(environments.presence_is_constant, "presence changes in 6 episodes", observe=observe)


def test_agents_without_an_action_are_found():
    observe = observing(available=lambda obs: obs.available & obs.agent_present[:, None])
    fails(environments.every_agent_has_an_action, r"agent 1 \(absent\) has no available action", observe=observe)


def test_numbers_that_are_not_finite_are_found():
    step = stepping(lambda after, outcome, actions: (after, replace(outcome, reward=jnp.log(2.0 - outcome.reward))))
    fails(environments.numbers_are_finite, "the reward is (-inf|nan) in", step=step)


def test_wins_without_an_end_are_found():
    step = stepping(lambda after, outcome, actions: (after, replace(outcome, won=outcome.won | True)))
    fails(environments.episodes_end, "episodes are won without being terminated", step=step)


def test_targets_that_nobody_sees_are_found():
    observe = observing(targeting_action=lambda obs: jnp.array([-1, -1, 1]), visible=lambda obs: obs.visible & False)
    fails(
        environments.targets_are_visible,
        "available targets are not visible",
        observe=observe,
        spec=replace(ENV.spec, target_actions=1),
    )


def test_names_and_drawings_are_optional():
    for check in (environments.names_match_the_spec, environments.states_can_be_drawn, environments.targets_are_visible):
        with pytest.raises(NotApplicable):
            check(Subject(ENV))


def test_every_check_has_a_name():
    assert len(environments.all_checks(Subject(ENV))) == 12
