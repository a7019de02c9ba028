"""What every environment guarantees, for all environments in the package and for those of tests and docs."""

from pathlib import Path

import jax
import numpy as np
import pytest

from refil import plugins
from refil.checks import environments, slots
from refil.checks.environments import Subject
from refil.checks.report import NotApplicable
from refil.envs import sc2, starcraft
from refil.training import contracts
from tests.slow import all_but

SETS = ["3-8csz", "3-8sz-varied", "3-8MMM", "bane_vs_bane"]  # tests/envs/starcraft covers all of them
OWN = [str(Path(__file__).parent / "tiny_envs.py"), str(Path(__file__).parent.parent / "refil" / "examples" / "beacon.py")]
FILES = [name for name in plugins.names("refil.envs") if name not in (*starcraft.names(), *sc2.names())]  # sc2: tests/envs/sc2
STEPS = 12


@pytest.fixture(scope="module", params=[*FILES, *all_but((SETS[0],), SETS), *OWN], ids=lambda name: Path(name).stem)
def subject(request) -> Subject:
    module = plugins.load("refil.envs", request.param)
    return Subject(module.build(module.Config()), STEPS)


def holds(check, subject: Subject) -> str:
    """Run a check, which raises if the property does not hold."""
    try:
        return check(subject)
    except NotApplicable as reason:
        return str(reason)


def test_the_contract_is_kept(subject):
    contracts.check_env(subject.env, "mine")


def test_shapes_are_those_of_the_spec(subject):
    trajectories, obs = subject.episodes
    spec, leading = subject.env.spec, (subject.num_episodes, min(STEPS, subject.env.spec.horizon))
    assert obs.entities.shape == (leading[0], leading[1] + 1, spec.entities, spec.features)
    assert obs.visible.shape == (leading[0], leading[1] + 1, spec.agents, spec.entities)
    assert obs.available.shape == (leading[0], leading[1] + 1, spec.agents, spec.actions)
    assert trajectories.rewards.shape == leading
    assert 1 <= spec.agents <= spec.entities


@pytest.mark.parametrize(
    "check",
    [
        environments.numbers_are_finite,
        environments.every_agent_has_an_action,
        environments.absent_entities_are_padding,
        environments.presence_is_constant,
        environments.targets_are_visible,
        environments.episodes_end,
        environments.tracing_is_deterministic,
        environments.the_same_key_gives_the_same_episode,
        environments.states_can_be_drawn,
    ],
    ids=lambda check: check.__name__,
)
def test_properties_hold(subject, check):
    holds(check, subject)


@pytest.mark.parametrize(
    "check", [environments.absent_agents_have_no_effect, slots.observations_follow_the_slots], ids=lambda c: c.__name__
)
def test_properties_of_single_steps_hold(subject, check):
    holds(check, subject)


def test_names_of_features_and_actions_match_the_spec(subject):
    assert holds(environments.names_match_the_spec, subject).endswith("actions") or subject.env.task_names[0] == "1 step"


def test_the_same_key_gives_the_same_first_state(subject):
    task = jax.tree.map(lambda leaf: leaf[0], subject.env.tasks)
    one, other = (subject.env.reset(task, jax.random.key(3)) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, one, other)
