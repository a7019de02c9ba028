"""What the state holds about an agent must be observed in that agent's slot."""

from dataclasses import replace
from types import SimpleNamespace

import jax.numpy as jnp
import pytest

from refil.checks.episodes import Subject
from refil.checks.report import CheckFailed, NotApplicable
from refil.checks.slots import observations_follow_the_slots
from refil.envs import group_matching
from refil.examples import beacon
from refil.types import Observation

BEACON = beacon.build(beacon.Config())
MEMBERS = ("spec", "tasks", "task_names", "reset", "step", "observe")


def observing(env, observe) -> Subject:
    return Subject(SimpleNamespace(**{name: getattr(env, name) for name in MEMBERS} | {"observe": observe}))  # type: ignore[arg-type] (an Env)


def rolled_beacon(state) -> Observation:
    obs = BEACON.observe(replace(state, team_size=jnp.int32(4)))
    rolled = jnp.where(state.present[:, None], jnp.roll(obs.entities, 1, axis=0), 0.0)
    return replace(BEACON.observe(state), entities=rolled)


def test_features_in_the_slot_of_another_agent_are_found():
    message = (
        "shows agents in other slots than their own: exchanging agents 0 and 1 in the state changes entities of slots 1 and 2"
    )
    with pytest.raises(CheckFailed, match=message):
        observations_follow_the_slots(observing(BEACON, rolled_beacon))


def test_numbered_agents_in_the_slots_of_others_are_found():
    env = group_matching.build(group_matching.Config(horizon=5))

    def observe(state):
        return replace(obs := env.observe(state), entities=jnp.roll(obs.entities, 1, axis=0))

    with pytest.raises(CheckFailed, match="changes entities of slots 1 and 2"):
        observations_follow_the_slots(observing(env, observe))
    with pytest.raises(NotApplicable, match="entities depends on the number of the slot"):
        observations_follow_the_slots(Subject(env))


def test_available_actions_in_the_slot_of_another_agent_are_found():
    def observe(state):
        obs = BEACON.observe(state)
        at_end = state.cell[:4] == 0
        available = obs.available & ~(at_end[:, None] & (jnp.arange(3) == 0))
        return replace(obs, available=jnp.roll(available, 1, axis=0) | (jnp.arange(3) == 1))

    with pytest.raises(CheckFailed, match="changes available of slots 1 and 2"):
        observations_follow_the_slots(observing(BEACON, observe))


def test_present_agents_may_be_exchanged():
    assert observations_follow_the_slots(Subject(BEACON)) == "observations follow the order of the agents that are present"


def test_features_relative_to_one_agent_are_no_mistake():
    env = group_matching.build(group_matching.Config(horizon=5))

    def observe(state):
        obs = env.observe(state)
        return replace(obs, entities=obs.entities + (state.cell - state.cell[0])[:, None])

    with pytest.raises(NotApplicable):
        observations_follow_the_slots(observing(env, observe))
