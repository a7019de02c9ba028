"""A few steps of random actions find numbers that are not finite and agents without an action."""

from dataclasses import replace

import jax.numpy as jnp
import pytest

from refil.errors import RefilError
from refil.training import contracts
from tests.training.contracts.test_env import ENV, changed


def observing(**changes):
    return lambda state: replace(obs := ENV.observe(state), **{name: change(obs) for name, change in changes.items()})


@pytest.mark.parametrize(
    ("observe", "message"),
    [
        (
            observing(entities=lambda obs: obs.entities / 0.0),
            r"observe\(\) gives (nan|inf) in feature 0 at step 0 of task '1 step'",
        ),
        (observing(available=lambda obs: obs.available & False), "agent 0 has no available action at step 0 of task '1 step'"),
        (observing(present=lambda obs: obs.present & False), "no agent is present at step 0 of task '1 step'"),
    ],
)
def test_values_that_cannot_be_trained_on_are_named(observe, message):
    with pytest.raises(RefilError, match=f"^mine: {message}"):
        contracts.dry_run(changed({"observe": observe}), "mine")


def test_a_reward_that_is_no_number_is_named():
    def step(state, actions, key):
        after, outcome = ENV.step(state, actions, key)
        return after, replace(outcome, reward=jnp.log(1.0 - outcome.reward))

    with pytest.raises(RefilError, match=r"mine: step\(\) gives reward -inf at step 0 of task '1 step'"):
        contracts.dry_run(changed({"step": step}), "mine")


def test_absent_agents_need_an_action_too():
    observe = observing(available=lambda obs: obs.available & obs.agent_present[:, None])
    message = "^mine: absent agent 1 has no available action at step 0 of task '1 step'; give it one that does nothing"
    with pytest.raises(RefilError, match=message):
        contracts.dry_run(changed({"observe": observe}), "mine")


def test_steps_after_the_end_do_not_count():
    contracts.dry_run(ENV, "mine")


@pytest.mark.parametrize(
    ("aimed", "target_actions", "message"),
    [
        (2, 1, "targeting_action 2 for entity 2 at step 0 of task '1 step'; it must be one of the last 1 actions, from 1 to 1"),
        (0, 1, "targeting_action 0 for entity 2"),
        (-2, 1, "targeting_action -2 for entity 2"),
        (2, 0, "targeting_action 2 for entity 2 .*; it must be an action, from 0 to 1, or -1"),
    ],
)
def test_targeting_actions_are_actions(aimed, target_actions, message):
    spec = replace(ENV.spec, target_actions=target_actions)
    env = changed({"observe": observing(targeting_action=lambda obs: jnp.array([-1, -1, aimed])), "spec": spec})
    with pytest.raises(RefilError, match=rf"^mine: observe\(\) gives {message}"):
        contracts.dry_run(env, "mine")


def test_actions_aimed_at_entities_are_accepted():
    observe = observing(targeting_action=lambda obs: jnp.array([-1, -1, 1]))
    contracts.dry_run(changed({"observe": observe, "spec": replace(ENV.spec, target_actions=1)}), "mine")
